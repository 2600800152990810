// Machinery's chains and chords, for bench/flows: a worker, and a sender that waits for the ends of its flows.
package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/RichardKnop/machinery/v2"
	backend "github.com/RichardKnop/machinery/v2/backends/redis"
	broker "github.com/RichardKnop/machinery/v2/brokers/redis"
	"github.com/RichardKnop/machinery/v2/config"
	lock "github.com/RichardKnop/machinery/v2/locks/eager"
	"github.com/RichardKnop/machinery/v2/log"
	"github.com/RichardKnop/machinery/v2/tasks"
)

type silent struct{}

func (silent) Print(...interface{})          {}
func (silent) Printf(string, ...interface{}) {}
func (silent) Println(...interface{})        {}
func (silent) Fatal(v ...interface{})        { panic(fmt.Sprint(v...)) }
func (silent) Fatalf(f string, v ...interface{}) {
	panic(fmt.Sprintf(f, v...))
}
func (silent) Fatalln(v ...interface{})          { panic(fmt.Sprintln(v...)) }
func (silent) Panic(v ...interface{})            { panic(fmt.Sprint(v...)) }
func (silent) Panicf(f string, v ...interface{}) { panic(fmt.Sprintf(f, v...)) }
func (silent) Panicln(v ...interface{})          { panic(fmt.Sprintln(v...)) }

func number(n int64) (int64, error)         { return n, nil }
func add(sum int64, n int64) (int64, error) { return sum + n, nil }
func total(numbers ...int64) (int64, error) {
	var sum int64
	for _, n := range numbers {
		sum += n
	}
	return sum, nil
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func signature(name string, arguments ...int64) *tasks.Signature {
	made := &tasks.Signature{Name: name}
	for _, argument := range arguments {
		made.Args = append(made.Args, tasks.Arg{Type: "int64", Value: argument})
	}
	return made
}

func main() {
	log.Set(silent{})
	command, address := os.Args[1], strings.TrimPrefix(os.Args[2], "redis://")
	settings := &config.Config{
		DefaultQueue: "flows", ResultsExpireIn: 3600, NoUnixSignals: true,
		Redis: &config.RedisConfig{MaxIdle: 10, IdleTimeout: 240, ReadTimeout: 15, WriteTimeout: 15,
			ConnectTimeout: 15, NormalTasksPollPeriod: 1000, DelayedTasksPollPeriod: 500},
	}
	server := machinery.NewServer(settings, broker.NewGR(settings, []string{address}, 0),
		backend.NewGR(settings, []string{address}, 0), lock.New())
	check(server.RegisterTasks(map[string]interface{}{"number": number, "add": add, "total": total}))
	if command == "worker" {
		concurrency, err := strconv.Atoi(os.Args[3])
		check(err)
		check(server.NewWorker("flows", concurrency).Launch())
		return
	}
	kind := os.Args[3]
	flows, err := strconv.Atoi(os.Args[4])
	check(err)
	size, err := strconv.Atoi(os.Args[5])
	check(err)
	begun := time.Now()
	var waits []func() (int64, error)
	for range flows {
		if kind == "chain" {
			signatures := []*tasks.Signature{signature("number", 1)}
			for range size - 1 {
				signatures = append(signatures, signature("add", 1))
			}
			chain, err := tasks.NewChain(signatures...)
			check(err)
			sent, err := server.SendChain(chain)
			check(err)
			waits = append(waits, func() (int64, error) {
				values, err := sent.GetWithTimeout(time.Minute, time.Millisecond)
				if err != nil {
					return 0, err
				}
				return values[0].Int(), nil
			})
			continue
		}
		var members []*tasks.Signature
		for range size {
			members = append(members, signature("number", 1))
		}
		group, err := tasks.NewGroup(members...)
		check(err)
		chord, err := tasks.NewChord(group, signature("total"))
		check(err)
		sent, err := server.SendChord(chord, 10)
		check(err)
		waits = append(waits, func() (int64, error) {
			values, err := sent.GetWithTimeout(time.Minute, time.Millisecond)
			if err != nil {
				return 0, err
			}
			return values[0].Int(), nil
		})
	}
	for _, wait := range waits {
		result, err := wait()
		check(err)
		if result != int64(size) {
			panic(fmt.Sprint("expected ", size, ", not ", result))
		}
	}
	fmt.Println(time.Since(begun).Seconds())
}
