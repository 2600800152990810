// Which bytes does a call become?
package main

import "github.com/shamaton/msgpack/v2"

// goMessage is what stands on the queue for a Go task: an array of two.
type goMessage struct {
	FuncPath string
	Payload  []byte
}

// pyMessage is what stands there for a Python task: an array of three, always.
type pyMessage struct {
	FuncPath string
	Args     interface{}
	KwArgs   interface{}
}

// goTask encodes a call with any number of arguments. The only argument is the payload itself; none
// or several are an array, but none is a nil array; and a single nil means no payload.
func goTask(path string, args ...interface{}) ([]byte, error) {
	var arg interface{} = args
	switch len(args) {
	case 0:
		arg = []interface{}(nil)
	case 1:
		arg = args[0]
	}
	message := goMessage{FuncPath: path}
	if arg != nil {
		payload, err := msgpack.MarshalAsArray(arg)
		if err != nil {
			return nil, err
		}
		message.Payload = payload
	}
	return msgpack.MarshalAsArray(&message)
}

func pyTask(path string, args, kwArgs interface{}) ([]byte, error) {
	return msgpack.MarshalAsArray(&pyMessage{FuncPath: path, Args: args, KwArgs: kwArgs})
}
