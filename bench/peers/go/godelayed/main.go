// go-delayed cannot be had; these workers send to Redis what its workers send.
package main

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"time"

	"bench-peers/peer"

	"github.com/gomodule/redigo/redis"
	"github.com/shamaton/msgpack/v2"
)

const (
	beat              = 15 * time.Second
	claimWait float32 = 1  // seconds
	idLives   float32 = 60 // seconds
)

// KEYS: queue, processing; ARGV: worker id; returns the message.
var claim = redis.NewScript(2, `
local message = redis.call('LPOP', KEYS[1])
redis.call('HSET', KEYS[2], ARGV[1], message)
return message
`)

type message struct {
	FuncPath string
	Payload  []byte
}

type carried struct {
	Number int
	Data   []byte
}

func main() {
	words := os.Args[1:]
	switch words[0] {
	case "version":
		fmt.Printf("tests/peers/go, redigo, %s\n", runtime.Version())
	case "send":
		send(words[1])
	case "worker":
		concurrency, err := strconv.Atoi(words[3])
		peer.Must(err)
		work(words[1], concurrency)
	}
}

func newPool(url string) *redis.Pool {
	return &redis.Pool{
		MaxIdle:     64,
		IdleTimeout: time.Minute,
		Dial:        func() (redis.Conn, error) { return redis.DialURL(url) },
	}
}

// send takes two commands for a call, without a transaction.
func send(url string) {
	pool, queues := newPool(url), peer.Queues()
	peer.Answer(func(task string, number int, data []byte) {
		var argument interface{} = number
		if len(data) > 0 {
			argument = carried{number, data}
		}
		payload, err := msgpack.MarshalAsArray(argument)
		peer.Must(err)
		call, err := msgpack.MarshalAsArray(&message{task, payload})
		peer.Must(err)
		queue := queues[number%len(queues)]
		conn := pool.Get()
		defer conn.Close()
		peer.Must(conn.Send("RPUSH", queue, call))
		_, err = conn.Do("RPUSH", queue+"_noti", 1)
		peer.Must(err)
	})
}

// work has as many workers as the concurrency; each has one queue and runs one call at a time.
func work(url string, concurrency int) {
	tally, queues := peer.OpenTally(), peer.Queues()
	for at := 0; at < max(concurrency, len(queues)); at++ {
		go claimAndRun(newPool(url), queues[at%len(queues)], tally)
	}
	<-peer.Stopped()
}

func claimAndRun(pool *redis.Pool, queue string, tally *peer.Tally) {
	bytes := make([]byte, 16)
	_, err := rand.Read(bytes)
	peer.Must(err)
	id := hex.EncodeToString(bytes)
	keepAlive(pool, id)
	go func() {
		for range time.Tick(beat) {
			keepAlive(pool, id)
		}
	}()
	for {
		if next := claimOne(pool, queue, id); next != nil {
			run(tally, next)
		}
	}
}

func keepAlive(pool *redis.Pool, id string) {
	conn := pool.Get()
	defer conn.Close()
	_, err := conn.Do("SETEX", id, idLives, 1)
	peer.Must(err)
}

func claimOne(pool *redis.Pool, queue, id string) *message {
	conn := pool.Get()
	defer conn.Close()
	if _, err := redis.ByteSlices(conn.Do("BLPOP", queue+"_noti", claimWait)); err == redis.ErrNil {
		return nil
	} else {
		peer.Must(err)
	}
	data, err := redis.Bytes(claim.Do(conn, queue, queue+"_processing", id))
	peer.Must(err)
	next := new(message)
	peer.Must(msgpack.UnmarshalAsArray(data, next))
	return next
}

func run(tally *peer.Tally, next *message) {
	if next.FuncPath == "carry" {
		var call carried
		peer.Must(msgpack.UnmarshalAsArray(next.Payload, &call))
		tally.Count(call.Number)
		return
	}
	var number int
	peer.Must(msgpack.UnmarshalAsArray(next.Payload, &number))
	peer.Run(tally, next.FuncPath, number)
}
