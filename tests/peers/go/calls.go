// Which calls are to be sent? They are read from JSON lines, or counted up.
package main

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

const maxLine = 64 << 20

// calls gives each message, encoded, to a function.
type calls func(each func(message []byte) error) error

// call is a line of the input. Args and KwArgs of an absent or null field are nil.
type call struct {
	Kind   string      `json:"kind"`
	Path   string      `json:"path"`
	Args   interface{} `json:"args"`
	KwArgs interface{} `json:"kwargs"`
}

func stdinCalls(input io.Reader) calls {
	return func(each func([]byte) error) error {
		lines := bufio.NewScanner(input)
		lines.Buffer(nil, maxLine)
		for number := 1; lines.Scan(); number++ {
			if len(bytes.TrimSpace(lines.Bytes())) == 0 {
				continue
			}
			message, err := encodeLine(lines.Bytes())
			if err == nil {
				err = each(message)
			}
			if err != nil {
				return fmt.Errorf("line %d: %w", number, err)
			}
		}
		return lines.Err()
	}
}

func repeatedCalls(path string, offset, count int) calls {
	return func(each func([]byte) error) error {
		for n := offset; n < offset+count; n++ {
			message, err := goTask(path, n)
			if err == nil {
				err = each(message)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
}

func encodeLine(line []byte) ([]byte, error) {
	var c call
	decoder := json.NewDecoder(bytes.NewReader(line))
	decoder.UseNumber()
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&c); err != nil {
		return nil, err
	}
	args, err := goValue(c.Args)
	if err != nil {
		return nil, err
	}
	kwArgs, err := goValue(c.KwArgs)
	if err != nil {
		return nil, err
	}

	switch c.Kind {
	case "go":
		list, ok := args.([]interface{})
		if args != nil && !ok {
			return nil, fmt.Errorf("args of kind go must be a list")
		}
		return goTask(c.Path, list...)
	case "py":
		return pyTask(c.Path, args, kwArgs)
	}
	return nil, fmt.Errorf("kind is %q, not go or py", c.Kind)
}

// goValue turns a JSON value into the Go value that a program would have passed.
func goValue(value interface{}) (interface{}, error) {
	switch v := value.(type) {
	case json.Number:
		return goNumber(v)
	case []interface{}:
		for at := range v {
			item, err := goValue(v[at])
			if err != nil {
				return nil, err
			}
			v[at] = item
		}
		return v, nil
	case map[string]interface{}:
		if len(v) == 1 {
			for key, item := range v {
				if strings.HasPrefix(key, "$") {
					return special(key, item)
				}
			}
		}
		for key := range v {
			item, err := goValue(v[key])
			if err != nil {
				return nil, err
			}
			v[key] = item
		}
		return v, nil
	}
	return value, nil
}

// goNumber returns an int, a uint64 for what is too large for one, or a float64.
func goNumber(number json.Number) (interface{}, error) {
	if whole, err := strconv.Atoi(number.String()); err == nil {
		return whole, nil
	}
	if whole, err := strconv.ParseUint(number.String(), 10, 64); err == nil {
		return whole, nil
	}
	return number.Float64()
}

// special reads what JSON has no word for: {"$bin": "00ff"}, {"$time": "2024-01-02T03:04:05.6Z"},
// {"$float": 2} and {"$float32": 0.5}.
func special(key string, value interface{}) (interface{}, error) {
	text := fmt.Sprint(value)
	switch key {
	case "$bin":
		return hex.DecodeString(text)
	case "$time":
		at, err := time.Parse(time.RFC3339Nano, text)
		return at.UTC(), err
	case "$float":
		return strconv.ParseFloat(text, 64)
	case "$float32":
		single, err := strconv.ParseFloat(text, 32)
		return float32(single), err
	}
	return nil, fmt.Errorf("%s is not one of $bin, $time, $float, $float32", key)
}
