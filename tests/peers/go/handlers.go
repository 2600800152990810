// What can the worker run? Each run leaves one line in the log.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/shamaton/msgpack/v2"
)

// shown are parameters of every kind.
type shown struct {
	Int    int64
	Uint   uint64
	Float  float64
	Single float32
	Text   string
	Bytes  []byte
	Yes    bool
	List   []string
	Map    map[string]int
	Note   *string
	Point  struct {
		X int
		Y float64
	}
	Time time.Time
}

// handlers are by path; each takes the payload, which may be empty.
type handlers map[string]func(payload []byte) error

func newHandlers(log string, recordPaths []string) handlers {
	record := func(payload []byte) error {
		var n int
		if err := arguments(payload, &n); err != nil {
			return err
		}
		return appendLine(log, "%d", n)
	}
	known := handlers{
		"main.Record": record,
		"main.Add": func(payload []byte) error {
			var args struct{ A, B int }
			if err := arguments(payload, &args); err != nil {
				return err
			}
			return appendLine(log, "%d+%d=%d", args.A, args.B, args.A+args.B)
		},
		"main.Greet": func(payload []byte) error {
			var name string
			if err := arguments(payload, &name); err != nil {
				return err
			}
			return appendLine(log, "greet=%s", name)
		},
		"main.Sum": func(payload []byte) error {
			var xs []int
			if err := arguments(payload, &xs); err != nil {
				return err
			}
			sum := 0
			for _, x := range xs {
				sum += x
			}
			return appendLine(log, "sum=%d", sum)
		},
		"main.Show": func(payload []byte) error {
			var args shown
			if err := arguments(payload, &args); err != nil {
				return err
			}
			text, err := json.Marshal(args)
			if err != nil {
				return err
			}
			return appendLine(log, "%s", text)
		},
		"main.Hold": func(payload []byte) error {
			var n int
			if err := arguments(payload, &n); err != nil {
				return err
			}
			if err := appendLine(log, "begin %d", n); err != nil {
				return err
			}
			waitForFile(os.Getenv("HOLD_FILE"))
			return appendLine(log, "end %d", n)
		},
	}
	for _, path := range recordPaths {
		known[path] = record
	}
	return known
}

// arguments fills the only parameter, or a struct that has a field for each of several. Without a
// payload they keep their zero values.
func arguments(payload []byte, into interface{}) error {
	if len(payload) == 0 {
		return nil
	}
	return msgpack.UnmarshalAsArray(payload, into)
}

// appendLine writes the line in one piece: several workers may share the file.
func appendLine(path, format string, values ...interface{}) error {
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = file.WriteString(fmt.Sprintf(format, values...) + "\n")
	return err
}

// waitForFile returns when there is such a file.
func waitForFile(path string) {
	for {
		if _, err := os.Stat(path); err == nil {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
}
