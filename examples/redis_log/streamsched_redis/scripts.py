"""Lua scripts that write. Redis executes scripts one at a time and atomically, which gives transactions and fences.

Keys of a log: `topics` (hash: name → spec), `epoch` (hash: writer → epoch), `end` (hash: topic/partition → end), and a
stream `log:<topic>/<partition>` for each partition, in which offset n has the id `<n + 1>-0`.
"""

from __future__ import annotations

from typing import Final

#: ARGV: writer or "", its epoch; then for each record: its partition, key, value, and "1" twice where those are None.
APPEND: Final = """
if ARGV[1] ~= '' and redis.call('HGET', KEYS[1], ARGV[1]) ~= ARGV[2] then
  return 0
end
local clock = redis.call('TIME')
local now = string.format('%d', clock[1] * 1000 + math.floor(clock[2] / 1000))
for i = 3, #ARGV, 5 do
  local offset = redis.call('HINCRBY', KEYS[2], ARGV[i], 1)
  redis.call('XADD', KEYS[3] .. ARGV[i], offset .. '-0',
    't', now, 'k', ARGV[i + 1], 'v', ARGV[i + 2], 'n', ARGV[i + 3] .. ARGV[i + 4])
end
redis.call('PUBLISH', KEYS[4], 'grown')
return 1
"""

#: ARGV: the topic, its spec as JSON, its shape. Returns the stored shape.
CREATE: Final = """
local stored = redis.call('HGET', KEYS[1], ARGV[1])
if stored and cjson.decode(stored)['shape'] ~= ARGV[3] then
  return cjson.decode(stored)['shape']
end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
return ARGV[3]
"""
