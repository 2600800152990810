// Are our bytes those that the real go-delayed made?
package main

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"
)

// inputs has, for each vector by its name, the rest of the input line after kind and path.
var inputs = map[string]string{
	"no arguments":          `"args": []`,
	"nil argument":          `"args": [null]`,
	"one int":               `"args": [5]`,
	"one negative int":      `"args": [-5]`,
	"one int 200":           `"args": [200]`,
	"one int -200":          `"args": [-200]`,
	"one int64 max":         `"args": [9223372036854775807]`,
	"one int64 min":         `"args": [-9223372036854775808]`,
	"one uint64 max":        `"args": [18446744073709551615]`,
	"one uint8":             `"args": [7]`,
	"one float64":           `"args": [0.5]`,
	"one float32":           `"args": [{"$float32": 0.5}]`,
	"one bool":              `"args": [true]`,
	"one string":            `"args": ["ann"]`,
	"one long string":       `"args": ["` + strings.Repeat("é", 40) + `"]`,
	"one empty string":      `"args": [""]`,
	"bytes":                 `"args": [{"$bin": "0001ff"}]`,
	"slice of ints":         `"args": [[1, 2, 300]]`,
	"empty slice":           `"args": [[]]`,
	"array of ints":         `"args": [1, 2, 3]`,
	"map":                   `"args": [{"a": 1}]`,
	"struct":                `"args": [[1, 2.5]]`,
	"pointer to struct":     `"args": [[1, 2.5]]`,
	"nested struct":         `"args": [[1099511627776, "shoes", ["a", "b"], [3, {"$float": 4}], {"k": 9}, "n"]]`,
	"nested struct, empty":  `"args": [[0, "", null, [0, {"$float": 0}], null, null]]`,
	"slice of structs":      `"args": [[[1, {"$float": 2}], [3, {"$float": 4}]]]`,
	"two ints":              `"args": [1, 2]`,
	"int and string":        `"args": [7, "x"]`,
	"int and nil":           `"args": [7, null]`,
	"int, string, bool":     `"args": [1, "two", true]`,
	"struct and int":        `"args": [[1, {"$float": 2}], 3]`,
	"two structs":           `"args": [[1, {"$float": 2}], [3, {"$float": 4}]]`,
	"list and list":         `"args": [[1], [2, 3]]`,
	"four arguments":        `"args": [-1, 1.5, "s", {"$bin": "09"}]`,
	"time":                  `"args": [{"$time": "2023-11-14T22:13:20.123456789Z"}]`,
	"time, whole second":    `"args": [{"$time": "2023-11-15T06:13:20+08:00"}]`,
	"twenty arguments":      `"args": [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19]`,
	"a string of 300 bytes": `"args": ["` + strings.Repeat("a", 300) + `"]`,
	"nothing":               `"args": null`,
	"args":                  `"args": [1, 2], "kwargs": null`,
	"mixed args":            `"args": [7, "x"]`,
	"kwargs map":            `"kwargs": {"name": "x"}`,
	"args and kwargs map":   `"args": [7], "kwargs": {"name": "x"}`,
	"kwargs struct":         `"kwargs": [1, "hi"]`,
	"empty args":            `"args": [], "kwargs": {}`,
}

func TestBytesAreTheAncestors(t *testing.T) {
	file, err := os.ReadFile("../../wire/go-delayed.json")
	if err != nil {
		t.Fatal(err)
	}
	var vectors struct {
		Cases []struct {
			Name, Class, Hex string
			FuncPath         string `json:"func_path"`
		}
	}
	if err := json.Unmarshal(file, &vectors); err != nil {
		t.Fatal(err)
	}
	if len(vectors.Cases) != len(inputs) {
		t.Errorf("%d vectors, but %d inputs", len(vectors.Cases), len(inputs))
	}
	for _, vector := range vectors.Cases {
		t.Run(vector.Name, func(t *testing.T) {
			kind := map[string]string{"GoTask": "go", "PyTask": "py"}[vector.Class]
			line := `{"kind": "` + kind + `", "path": "` + vector.FuncPath + `", ` + inputs[vector.Name] + "}\n"
			var out bytes.Buffer
			if err := printBytes(stdinCalls(strings.NewReader(line)), &out); err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			if made := out.String(); made != vector.Hex+"\n" {
				t.Errorf("%smade   %swanted %s", line, made, vector.Hex)
			}
		})
	}
}

func TestRepeatedCallsCountUp(t *testing.T) {
	var counted, written bytes.Buffer
	if err := printBytes(repeatedCalls("main.Record", 299, 2), &counted); err != nil {
		t.Fatal(err)
	}
	lines := `{"kind":"go","path":"main.Record","args":[299]}
{"kind":"go","path":"main.Record","args":[300]}`
	if err := printBytes(stdinCalls(strings.NewReader(lines)), &written); err != nil {
		t.Fatal(err)
	}
	if counted.String() != written.String() {
		t.Errorf("made\n%swanted\n%s", &counted, &written)
	}
}

func TestBadLinesAreNamed(t *testing.T) {
	for line, said := range map[string]string{
		`{`:                       "line 1: unexpected EOF",
		`{"kind":"js"}`:           `line 1: kind is "js", not go or py`,
		`{"kind":"go","args":5}`:  "line 1: args of kind go must be a list",
		`{"kind":"go","arg":[5]}`: `line 1: json: unknown field "arg"`,
		`{"kind":"go","args":[{"$x":1}]}`: "line 1: $x is not one of $bin, $time, " +
			"$float, $float32",
	} {
		err := printBytes(stdinCalls(strings.NewReader(line)), new(bytes.Buffer))
		if err == nil || err.Error() != said {
			t.Errorf("%s: %v, wanted %s", line, err, said)
		}
	}
}
