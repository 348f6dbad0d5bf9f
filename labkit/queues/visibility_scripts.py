"""The Lua scripts of `VisibilityQueue`: Redis runs each as one step, so that nothing comes between its commands.

KEYS[1] is the queue, and every other key starts with it: a queue lives on one Redis, not on a cluster. Times are
whole milliseconds since 1970. A script answers with a list, or with the name of an error before it changed anything.

- `queue:NAME`, a hash: the queue's attributes and counters;
- `queue:NAME:visible_at`, a sorted set: each message by the time at which it is visible;
- `queue:NAME:sent_at`, a sorted set: each message by the time at which it was sent;
- `queue:NAME:message:ID`, a hash: a message's body and receive count, and when it was last received;
- `queue:NAME:news`, a stream of one entry: something became visible earlier than it would have;
- `queue:NAME-dead-letters…`: the same for the dead-letter queue.
"""

_NAMES = """
local queue, dead = KEYS[1], KEYS[1] .. '-dead-letters'
local function message(of, id) return of .. ':message:' .. id end
local function remove(id)
  redis.call('ZREM', queue .. ':visible_at', id)
  redis.call('ZREM', queue .. ':sent_at', id)
  redis.call('DEL', message(queue, id))
end
local function announce()
  local number = redis.call('HINCRBY', queue, 'news', 1)
  redis.call('XADD', queue .. ':news', 'MAXLEN', 1, number .. '-0', 'number', number)
end
local function new_id()
  return string.format('%s-%06d', queue:match('[^:]*$'), redis.call('HINCRBY', queue, 'last_id', 1))
end
"""
_EXISTS = """
if redis.call('EXISTS', queue) == 0 then return 'QueueDoesNotExist' end
"""
_RECEIPT = """
local id, count = ARGV[1], tonumber(ARGV[2])
local latest = tonumber(redis.call('HGET', message(queue, id), 'receive_count'))
if latest and count > latest then return 'ReceiptHandleIsInvalid' end
if latest and count < latest then
  local rule = redis.call('HGET', queue, 'old_receipts')
  if rule == 'ignore' then return {0} end
  if rule == 'error' then return 'ReceiptHandleHasExpired' end
end
"""


def _script(title: str, *parts: str) -> str:
    return f"-- {title}\n" + _NAMES + "".join(parts)


# visibility timeout, retention, max receive count or 0, rule for old receipts, retention of the dead letters
CREATE = _script(
    "create",
    """
local names = {'visibility_timeout', 'retention', 'max_receive_count', 'old_receipts'}
local function create(key, values)
  if redis.call('EXISTS', key) == 0 then
    for place, name in ipairs(names) do redis.call('HSET', key, name, values[place]) end
  end
end
create(queue, ARGV)
if ARGV[3] ~= '0' then create(dead, {ARGV[1], ARGV[5], '0', ARGV[4]}) end
return redis.call('HMGET', queue, unpack(names))
""",
)

# now, delay, body
SEND = _script(
    "send",
    _EXISTS,
    """
local id = new_id()
redis.call('HSET', message(queue, id), 'body', ARGV[3], 'receive_count', 0)
redis.call('ZADD', queue .. ':sent_at', ARGV[1], id)
redis.call('ZADD', queue .. ':visible_at', ARGV[1] + ARGV[2], id)
redis.call('HINCRBY', queue, 'sent', 1)
announce()
return {id}
""",
)

# now, how many, visibility timeout or -1 for the queue's own; answers with the messages. With nothing to give, it
# writes nothing, and answers with the number of the latest news and when the first message becomes visible.
RECEIVE = _script(
    "receive",
    _EXISTS,
    """
local now, wanted, timeout = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
if timeout < 0 then timeout = tonumber(redis.call('HGET', queue, 'visibility_timeout')) end
local retention = tonumber(redis.call('HGET', queue, 'retention'))
local most = tonumber(redis.call('HGET', queue, 'max_receive_count'))

local function bury(id)
  redis.call('ZADD', dead .. ':sent_at', redis.call('ZSCORE', queue .. ':sent_at', id), id)
  redis.call('ZADD', dead .. ':visible_at', now, id)
  redis.call('RENAME', message(queue, id), message(dead, id))
  remove(id)
  redis.call('HINCRBY', queue, 'dead_lettered', 1)
end

local function give(id)
  local count = redis.call('HINCRBY', message(queue, id), 'receive_count', 1)
  redis.call('HSET', message(queue, id), 'received_at', now)
  redis.call('ZADD', queue .. ':visible_at', now + timeout, id)
  redis.call('HINCRBY', queue, 'received', 1)
  if count > 1 then redis.call('HINCRBY', queue, 'redelivered', 1) end
  return {id, redis.call('HGET', message(queue, id), 'body'), count, redis.call('ZSCORE', queue .. ':sent_at', id)}
end

local given = {}
while #given < wanted do
  -- What was given with a visibility timeout of 0 is visible still: pass it over.
  local passed = timeout == 0 and #given or 0
  local id = redis.call('ZRANGEBYSCORE', queue .. ':visible_at', '-inf', now, 'LIMIT', passed, 1)[1]
  if not id then break end
  if redis.call('ZSCORE', queue .. ':sent_at', id) + retention <= now then
    remove(id)
    redis.call('HINCRBY', queue, 'expired', 1)
  elseif most > 0 and tonumber(redis.call('HGET', message(queue, id), 'receive_count')) >= most then
    bury(id)
  else
    given[#given + 1] = give(id)
  end
end
if #given > 0 then return {given} end
local first = redis.call('ZRANGE', queue .. ':visible_at', 0, 0, 'WITHSCORES')
return {given, tonumber(redis.call('HGET', queue, 'news') or 0), first[2]}
""",
)

# id, and the receive count of the delivery that the receipt handle stands for
DELETE = _script(
    "delete",
    _EXISTS,
    _RECEIPT,
    """
if not latest then return {0} end
remove(id)
redis.call('HINCRBY', queue, 'deleted', 1)
return {1}
""",
)

# id, receive count, now, visibility timeout, the longest that a delivery may take in all
CHANGE_VISIBILITY = _script(
    "change visibility",
    _EXISTS,
    _RECEIPT,
    """
local now, timeout, longest = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local before = tonumber(redis.call('ZSCORE', queue .. ':visible_at', id))
if not before or before <= now then return 'MessageNotInflight' end
if now + timeout > redis.call('HGET', message(queue, id), 'received_at') + longest then return 'TooLong' end
redis.call('ZADD', queue .. ':visible_at', now + timeout, id)
if now + timeout < before then announce() end
return {1}
""",
)

# now
REDRIVE = _script(
    "redrive",
    _EXISTS,
    """
if redis.call('EXISTS', dead) == 0 then return 'NoDeadLetters' end
local ids = redis.call('ZRANGEBYSCORE', dead .. ':visible_at', '-inf', ARGV[1])
for _, old in ipairs(ids) do
  -- A new id, as in SQS: with the old one, old receipt handles would fit again, since the count starts anew.
  local id = new_id()
  redis.call('RENAME', message(dead, old), message(queue, id))
  redis.call('HSET', message(queue, id), 'receive_count', 0)
  redis.call('ZADD', queue .. ':sent_at', ARGV[1], id)
  redis.call('ZADD', queue .. ':visible_at', ARGV[1], id)
  redis.call('ZREM', dead .. ':sent_at', old)
  redis.call('ZREM', dead .. ':visible_at', old)
end
if #ids > 0 then announce() end
return {#ids}
""",
)

# now; the counters are those of `QueueAttributes`
ATTRIBUTES = _script(
    "attributes",
    _EXISTS,
    """
local hidden = redis.call('ZRANGEBYSCORE', queue .. ':visible_at', '(' .. ARGV[1], '+inf')
local delayed = 0
for _, id in ipairs(hidden) do
  if redis.call('HGET', message(queue, id), 'receive_count') == '0' then delayed = delayed + 1 end
end
local oldest = redis.call('ZRANGE', queue .. ':sent_at', 0, 0, 'WITHSCORES')[2] or ARGV[1]
local answer = {
  redis.call('ZCARD', queue .. ':visible_at') - #hidden, #hidden - delayed, delayed, ARGV[1] - oldest
}
for _, name in ipairs({'sent', 'received', 'redelivered', 'deleted', 'dead_lettered', 'expired'}) do
  answer[#answer + 1] = tonumber(redis.call('HGET', queue, name) or 0)
end
return answer
""",
)
