// `node sdk_node.js URL KEY CALLS FOLDER`: Segment's Node SDK makes the calls.
const [url, key, calls, folder] = process.argv.slice(2)
const { createRequire } = require('module')
const { readFileSync } = require('fs')
const { Analytics } = createRequire(`${folder}/index.js`)('@segment/analytics-node')

const analytics = new Analytics({ writeKey: key, host: url, flushAt: 5, flushInterval: 200 })
let problem
analytics.on('error', (error) => (problem = error))
for (const { type, ...call } of JSON.parse(readFileSync(calls))) {
  analytics[type]({ ...call, timestamp: new Date(call.timestamp) })
}
analytics.closeAndFlush({ timeout: 30000 }).then(() => {
  if (problem) console.error(problem)
  process.exit(problem ? 1 : 0)
})
