"""Run calls one after the other and at the same time: `flow.py redis://127.0.0.1:6379`.

The tasks are those of examples/quickstart.rs, whose worker has to run:
`cargo run --example quickstart -- worker --queue default --queue mail`.
"""

import sys

import redis

from delayed_compat import CallFailedError, Flow, Queue, RustStep, RustTask, chain, group, limits

ADD, SEND = "quickstart::tasks::add", "mail.send"
conn = redis.Redis.from_url(sys.argv[1])
queue = Queue("default", conn)

# The result of a call is the first argument of the step behind it.
sum_of_three = queue.enqueue(chain(RustTask(ADD, (1, 2)), RustStep(ADD, (3,))))
print(f"1 + 2 + 3 is {sum_of_three.wait(timeout=60)}")

# Members of a group run at the same time, here two of them; each may be a chain. The last part
# ignores their results.
sums = group((chain(RustTask(ADD, (n, n)), RustStep(ADD, (1,))) for n in range(3)), at_most=2)
print(f"the sums are {queue.enqueue(sums).wait(timeout=60)}")
mail = RustTask(SEND, ("ann@example.org", "the sums are ready"), queue="mail")
queue.enqueue(sums.then(mail)).wait(timeout=60)

# A group may go on without the members that failed.
mistake = RustTask(SEND, ("nobody",), retry=0, queue="mail")
rest = group([RustTask(ADD, (4, 5)), mistake], policy="successes")
print(f"without what failed it is {queue.enqueue(rest).wait(timeout=60)}")

# If a flow fails, one more call runs. The id, here a text, is that of the whole flow.
alert = RustTask(SEND, ("eve@example.org", "the flow failed"), queue="mail")
failing = Flow(chain(mistake, mail), on_error=alert, id="mails:7", keep=3600)
try:
    queue.enqueue(failing).wait(timeout=60)
except CallFailedError as error:
    print(f"it failed: {error.error}")

# At most four calls that name this limit run at a time, whatever their queue.
limits.set(conn, "sums", concurrency=4)
many = group(RustTask(ADD, (n, n), limit="sums") for n in range(100))
print(f"the last of many is {queue.enqueue(many).wait(timeout=60)[-1]}")
