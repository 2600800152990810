// Which commands does a queue send to Redis?
package main

import (
	"errors"
	"net/url"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/shamaton/msgpack/v2"
)

const (
	claimWait float32 = 1  // seconds
	idLives   float32 = 60 // seconds
)

// claimScript takes the oldest message and makes the worker its owner. On an empty queue LPOP
// replies false, which HSET refuses: a notification without a message is an error.
// KEYS: queue, processing; ARGV: worker id; returns the message
var claimScript = redis.NewScript(2, `
local message = redis.call('LPOP', KEYS[1])
redis.call('HSET', KEYS[2], ARGV[1], message)
return message
`)

// sweepScript puts the messages of dead workers back at the tail and fills the notifications up.
// All tokens go in one push: from 8000 on unpack fails, after the messages were put back.
// KEYS: queue, notifications, processing; returns how many tokens were missing, below 0: surplus
var sweepScript = redis.NewScript(3, `
local missing = redis.call('LLEN', KEYS[1]) - redis.call('LLEN', KEYS[2])
local owned = redis.call('HGETALL', KEYS[3])
for at = 1, #owned, 2 do
    if not redis.call('GET', owned[at]) then
        redis.call('RPUSH', KEYS[1], owned[at + 1])
        redis.call('HDEL', KEYS[3], owned[at])
        missing = missing + 1
    end
end
if missing > 0 then
    local tokens = {}
    for at = 1, missing do tokens[at] = '1' end
    redis.call('LPUSH', KEYS[2], unpack(tokens))
end
return missing
`)

var errBadReply = errors.New("unexpected reply to BLPOP")

type queue struct {
	name, noti, processing string
	workerID               string
	pool                   *redis.Pool
}

// newQueue waits for each reply for as long as the options say; without them for ever, as that module does.
func newQueue(name, address string, options ...redis.DialOption) *queue {
	return &queue{
		name:       name,
		noti:       name + "_noti",
		processing: name + "_processing",
		pool: &redis.Pool{
			MaxIdle:     1,
			MaxActive:   10,
			IdleTimeout: time.Minute,
			Dial:        func() (redis.Conn, error) { return dial(address, options) },
		},
	}
}

// dial also knows unix:///path?db=N, which the library does not.
func dial(address string, options []redis.DialOption) (redis.Conn, error) {
	if !strings.HasPrefix(address, "unix:") {
		return redis.DialURL(address, options...)
	}
	parsed, err := url.Parse(address)
	if err != nil {
		return nil, err
	}
	conn, err := redis.Dial("unix", parsed.Path, options...)
	if err != nil {
		return nil, err
	}
	if db := parsed.Query().Get("db"); db != "" {
		if _, err := conn.Do("SELECT", db); err != nil {
			conn.Close()
			return nil, err
		}
	}
	return conn, nil
}

func (q *queue) enqueue(message []byte) error {
	conn := q.pool.Get()
	defer conn.Close()
	if err := conn.Send("RPUSH", q.name, message); err != nil {
		return err
	}
	_, err := conn.Do("RPUSH", q.noti, 1)
	return err
}

// claim returns nil without an error when nothing came within a second.
func (q *queue) claim() (*goMessage, error) {
	conn := q.pool.Get()
	defer conn.Close()

	popped, err := redis.ByteSlices(conn.Do("BLPOP", q.noti, claimWait))
	if err == redis.ErrNil {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if len(popped) != 2 || string(popped[1]) != "1" {
		return nil, errBadReply
	}

	data, err := redis.Bytes(claimScript.Do(conn, q.name, q.processing, q.workerID))
	if err != nil {
		return nil, err
	}
	message := new(goMessage)
	if err := msgpack.UnmarshalAsArray(data, message); err != nil {
		return nil, err
	}
	return message, nil
}

func (q *queue) requeueLost() (int, error) {
	conn := q.pool.Get()
	defer conn.Close()
	return redis.Int(sweepScript.Do(conn, q.name, q.noti, q.processing, q.workerID))
}

func (q *queue) keepAlive() error {
	return q.command("SETEX", q.workerID, idLives, 1)
}

func (q *queue) goOffline() error {
	return q.command("DEL", q.workerID)
}

func (q *queue) command(name string, args ...interface{}) error {
	conn := q.pool.Get()
	defer conn.Close()
	_, err := conn.Do(name, args...)
	return err
}
