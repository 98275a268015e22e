"""What the models of the golden company say, by what they are asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from trouper import AI
from trouper.testing import call, calls

_SEARCH = call("search", query="books")

SCRIPTS: Mapping[str, Sequence[AI | str]] = {
    # a lead and those it calls
    "delegate": [calls(call("researcher", input="rain"), call("researcher", input="wind")), "Both are known."],
    "rain": [call("search", query="rain"), "It rains on Mondays."],
    "wind": ["It blows."],
    "hand over": [call("expert", input="this one")],
    "this one": ["The expert's answer."],
    "lose one": [call("researcher", input="publish lost"), "It was stopped."],
    "publish lost": [call("send", to="lost")],
    "lose all": [call("researcher", input="publish all")],
    "publish all": [call("send", to="all")],
    "hold all": [call("researcher", input="publish held"), "Held, then published."],
    "publish held": [call("send", to="held"), "Published."],
    "share": [call("researcher", input="share alike"), "Shared."],
    "share alike": [call("search", query="shares and their value"), "Two shares."],
    "tree left": [call("researcher", input="publish left"), "Published after all."],
    "publish left": [call("send", to="left"), "Published late."],
    # what is said to a run under way, and time
    "steer": [call("send", to="all"), "Sent, in short."],
    "in time": [call("send", to="bank"), "I could not send it in time."],
    "later": ["All quiet."],
    "sleep": [call("wait", seconds=86_400), "Rested."],
    "sleep left": [call("wait", seconds=172_800), "Rested long."],
    # hooks
    "polite": [calls(call("note", text="a"), call("note", text="secret")), "Noted."],
    "fall back": ["The backup's answer."],
    # state, artifacts, parts
    "collect": [calls(call("collect", topic="otters"), call("plot", month="May")), "Six books."],
    "look": ["One grey pixel."],
    # outputs
    "read": ['{"subject": "printer", "days": "many"}', 'Well: {"subject": "printer", "days": 3}'],
    "tell": [
        calls(call("search", query="numbers"), call("final_result", result=[1, 2])),
        "never",
    ],
    "mumble": ["Hm.", "Hm?"],
    "close": ["I closed it.", call("note", text="closed"), "Now it is closed."],
    "refuse": [AI("", None, refusal="I would rather not.")],
    # limits
    "spend": [_SEARCH, _SEARCH, _SEARCH, "Spent."],
    "spend left": [_SEARCH, _SEARCH, _SEARCH, "Spent in the end."],
    "pay for it": [_SEARCH, "Paid for."],
    "wrap up": [_SEARCH, "Wrapped up."],
    "in a minute": [call("send", to="minutes"), "Too late."],
    # people
    "refund 15": [call("refund", order="R-1", amount=15), "Refunded."],
    "refund 20000": [call("refund", order="R-2", amount=20_000), "Not refunded."],
    "refund 300": [call("refund", order="R-3", amount=300), "Refunded by two."],
    "refund 400": [call("refund", order="R-4", amount=400), "Refunded by Eva."],
    "refund 500": [call("refund", order="R-5", amount=500), "Refunded at last."],
    "send once": [call("send", to="rule"), "Sent once."],
    "send again": [call("send", to="rule"), "Sent again."],
    "send no more": [call("send", to="rule"), "Not sent."],
    "let go": [calls(call("close", customer="Ann"), call("close", customer="Bob")), "Bob has left."],
    "let go without leave": [call("close", customer="Cid"), "Nobody has left."],
    # tools of a step
    "move": [call("verify", code="4711"), call("move", street="Elm Street 1")],
    "move badly": ["never"],
    # forks
    "pay what is due": [call("search", query="balance"), call("pay", amount=100), "Paid 100."],
    "pay 7": [call("pay", amount=7), "It was blocked."],
    "pay 8": [call("pay", amount=8), "It is as if it was paid."],
    "pay 9": [call("pay", amount=9), "Paid with leave."],
    # conversations
    "hello": ["Hello."],
    "hello again": ["Hello again."],
    "still here": ["I am."],
    "what was said": ["That you said hello."],
    "and before": ["I forgot."],
    "mail everybody": [call("send", to="everybody"), "Not sent."],
    "agreed": ["To what?"],
    "only maria": ["To Maria alone, then."],
    "break down": ["Up again."],
    "mail left": [call("send", to="customers"), "Mailed."],
    "next left": ["And done."],
}
