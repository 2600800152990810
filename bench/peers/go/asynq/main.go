// asynq, with its defaults but for the concurrency.
package main

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"time"

	"bench-peers/peer"

	"github.com/hibiken/asynq"
)

type payload struct{ Number int }

func main() {
	words := os.Args[1:]
	switch words[0] {
	case "version":
		fmt.Printf("asynq %s, %s\n", version("github.com/hibiken/asynq"), runtime.Version())
	case "send":
		client := asynq.NewClient(address(words[1]))
		queues := peer.Queues()
		peer.Answer(func(task string, number int, data []byte) {
			options := []asynq.Option{asynq.Queue(queues[number%len(queues)])}
			switch task {
			case "later":
				options = append(options, asynq.ProcessIn(time.Second))
			case "unique":
				options = append(options, asynq.Unique(time.Hour))
			}
			_, err := client.Enqueue(asynq.NewTask(task, encode(number, data)), options...)
			peer.Must(err)
		})
	case "worker":
		concurrency, err := strconv.Atoi(words[3])
		peer.Must(err)
		queues := make(map[string]int)
		for _, queue := range peer.Queues() {
			queues[queue] = 1
		}
		config := asynq.Config{
			Concurrency:    concurrency,
			Queues:         queues,
			LogLevel:       asynq.ErrorLevel,
			RetryDelayFunc: func(int, error, *asynq.Task) time.Duration { return time.Second },
		}
		peer.Must(asynq.NewServer(address(words[1]), config).Run(handlers()))
	}
}

func address(url string) asynq.RedisConnOpt {
	address, err := asynq.ParseRedisURI(url)
	peer.Must(err)
	return address
}

// encode writes JSON, as its guide does, but where there are bytes to carry.
func encode(number int, data []byte) []byte {
	if len(data) > 0 {
		return append(binary.LittleEndian.AppendUint64(nil, uint64(number)), data...)
	}
	bytes, err := json.Marshal(payload{number})
	peer.Must(err)
	return bytes
}

func handlers() *asynq.ServeMux {
	tally := peer.OpenTally()
	mux := asynq.NewServeMux()
	for _, name := range []string{"count", "mark", "mixed", "unique"} {
		mux.HandleFunc(name, func(_ context.Context, task *asynq.Task) error {
			var call payload
			if err := json.Unmarshal(task.Payload(), &call); err != nil {
				return err
			}
			peer.Run(tally, name, call.Number)
			return nil
		})
	}
	mux.HandleFunc("later", func(ctx context.Context, task *asynq.Task) error {
		var call payload
		if err := json.Unmarshal(task.Payload(), &call); err != nil {
			return err
		}
		if failed, _ := asynq.GetRetryCount(ctx); call.Number%100 == 0 && failed == 0 {
			return errors.New("the first time")
		}
		tally.Count(call.Number)
		return nil
	})
	mux.HandleFunc("carry", func(_ context.Context, task *asynq.Task) error {
		tally.Count(int(binary.LittleEndian.Uint64(task.Payload())))
		return nil
	})
	return mux
}

func version(module string) string {
	info, _ := debug.ReadBuildInfo()
	for _, dependency := range info.Deps {
		if dependency.Path == module {
			return dependency.Version
		}
	}
	return "unknown"
}
