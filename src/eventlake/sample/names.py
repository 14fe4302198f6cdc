"""The event types of a sample, the most popular first."""

from itertools import product

CALLS = ("page", "screen", "identify", "group", "alias")
"""The calls other than track; each is one table."""


def _split(names: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in names.split(","))


RANKING = _split("""
    page, Product Viewed, screen, Product List Viewed, Product Clicked, Product Added, identify,
    Cart Viewed, Products Searched, Promotion Viewed, Checkout Started, Order Completed,
    Application Opened, Checkout Step Viewed, Checkout Step Completed, Payment Info Entered,
    Signed In, Product List Filtered, Product Removed, Email Opened, Coupon Applied,
    Promotion Clicked, Signed Up, Product Added to Wishlist, group, Coupon Entered,
    Push Notification Received, Application Backgrounded, Email Link Clicked, Invite Sent,
    Signed Out, Product Shared, Product Reviewed, alias, Coupon Denied, Order Updated,
    Push Notification Tapped, Wishlist Product Added to Cart, Coupon Removed, Order Refunded,
    Cart Shared, Application Installed, Invite Accepted, Order Cancelled, Application Updated,
    Email Bounced, Application Crashed, 2FA Enabled
""")
"""The calls and the shop's own track events, by popularity."""

TAIL_OBJECTS = _split("""
    Wishlist Item, Gift Card, Loyalty Points, Store Locator, Size Guide, Product Video,
    Product Image, Review Form, Shipping Quote, Delivery Slot, Pickup Point, Return Label,
    Return Request, Refund Request, Saved Card, Billing Address, Shipping Address,
    Subscription Plan, Subscription Box, Free Trial, Price Alert, Stock Alert, Back Order,
    Gift Registry, Bundle Offer, Flash Sale, Clearance Banner, Homepage Carousel, Navigation Menu,
    Search Filter, Search Suggestion, Recommendation Row, Recently Viewed List, Comparison Table,
    Chat Session, Support Ticket, Help Article, Feedback Survey, Referral Link, Affiliate Click,
    Newsletter Preference, Notification Preference, Cookie Consent, Profile Photo, Profile Form,
    Password Reset, Login Attempt, Device Pairing, Barcode Scan, Camera Permission,
    Location Permission, Store Visit, Store Appointment, Click and Collect Order, Warranty Claim,
    Insurance Offer, Financing Offer, Installment Plan, Tax Invoice, Purchase Order, Quote Request,
    Team Member, Workspace, Dashboard Report, Data Export, Vendor Page, Brand Page, Live Stream,
    Outfit Builder, Style Quiz
""")
TAIL_ACTIONS = _split("""
    Viewed, Clicked, Opened, Closed, Created, Updated, Deleted, Shared, Started, Completed,
    Abandoned, Dismissed, Expanded, Collapsed, Saved, Submitted, Approved, Rejected, Requested,
    Confirmed, Cancelled, Expired, Renewed, Paused, Resumed, Downloaded, Printed, Searched, Sorted,
    Selected, Redeemed, Assigned, Archived, Restored, Failed, Retried
""")

MIN_TYPES = len(CALLS) + 1
MAX_TYPES = len(RANKING) + len(TAIL_OBJECTS) * len(TAIL_ACTIONS)


def ranked_types(count: int) -> tuple[str, ...]:
    """The `count` types of a sample, most popular first: all five calls and the top track names."""
    # Consecutive names have different objects and actions.
    rounds = product(range(len(TAIL_ACTIONS)), enumerate(TAIL_OBJECTS))
    tail = (
        f"{thing} {TAIL_ACTIONS[(turn + at) % len(TAIL_ACTIONS)]}" for turn, (at, thing) in rounds
    )
    names = (*RANKING, *tail)
    tracks = [name for name in names if name not in CALLS]
    chosen = {*tracks[: count - len(CALLS)], *CALLS}
    return tuple(name for name in names if name in chosen)
