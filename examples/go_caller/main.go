// Calls the tasks of examples/quickstart.rs from Go: go run . redis://127.0.0.1:6379
//
// It pushes what the module go-delayed pushes: see "Messages: the fixed forms" in docs/protocol.md.
package main

import (
	"log"
	"net/url"
	"os"

	"github.com/gomodule/redigo/redis"
	"github.com/shamaton/msgpack/v2"
)

// message is an array of two: the path of the task, and its arguments, encoded.
type message struct {
	Path    string
	Payload []byte
}

// enqueue pushes a call and its notification in one transaction.
func enqueue(conn redis.Conn, queue, task string, args ...interface{}) error {
	var payload interface{} = args
	if len(args) == 1 {
		payload = args[0]
	}
	encoded, err := msgpack.MarshalAsArray(payload)
	if err != nil {
		return err
	}
	call, err := msgpack.MarshalAsArray(message{Path: task, Payload: encoded})
	if err != nil {
		return err
	}
	conn.Send("MULTI")
	conn.Send("RPUSH", queue, call)
	conn.Send("RPUSH", queue+"_noti", "1")
	_, err = conn.Do("EXEC")
	return err
}

func main() {
	address := "redis://127.0.0.1:6379"
	if len(os.Args) > 1 {
		address = os.Args[1]
	}
	conn, err := dial(address)
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()

	if err := enqueue(conn, "default", "quickstart::tasks::add", 3, 4); err != nil {
		log.Fatal(err)
	}
	if err := enqueue(conn, "mail", "mail.send", "eve@example.org", "from Go"); err != nil {
		log.Fatal(err)
	}
}

// dial also knows unix:///path, which redis.DialURL does not.
func dial(address string) (redis.Conn, error) {
	parsed, err := url.Parse(address)
	if err == nil && parsed.Scheme == "unix" {
		return redis.Dial("unix", parsed.Path)
	}
	return redis.DialURL(address)
}
