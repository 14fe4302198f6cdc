// `node sdk_browser.mjs HOST KEY FOLDER STRATEGY`: analytics.js makes the calls, on a page of jsdom's.
import { createRequire } from 'module'

const [host, key, folder, strategy] = process.argv.slice(2)
const packages = createRequire(`${folder}/index.js`)
const { JSDOM } = packages('jsdom')
const { window } = new JSDOM('<!doctype html><title>Shop</title>', { url: 'http://shop.test/cart?x=1' })
const page = { window, document: window.document, navigator: window.navigator, location: window.location }
for (const [name, value] of Object.entries({ ...page, localStorage: window.localStorage })) {
  Object.defineProperty(globalThis, name, { value, configurable: true })
}
const { AnalyticsBrowser } = packages('@segment/analytics-next')
const delivery = { strategy, config: { size: 3, timeout: 300 } }
const analytics = AnalyticsBrowser.load(
  { writeKey: key, cdnSettings: { integrations: { 'Segment.io': { apiKey: key } } } },
  { integrations: { 'Segment.io': { apiHost: `${host}/v1`, protocol: 'http', deliveryStrategy: delivery } } },
)
await analytics.identify('u1', { email: 'ada@example.com' })
await analytics.page('Home')
await analytics.track('Order Completed', { total: 12.5, tags: ['a', 'ü'] })
await analytics.group('g1', { plan: 'Enterprise' })
await analytics.alias('u2', 'u1')
await analytics.screen('Cart', { width: 320 })
setTimeout(() => process.exit(0), 1500) // the last ones are on their way
