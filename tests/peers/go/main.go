// What would a Go program of the go-delayed family put on a queue, and take off it?
//
// These commands speak the wire exactly as that module does, its weaknesses included, so that our
// own producers, workers and sweepers can be held against it.
package main

import (
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/gomodule/redigo/redis"
)

const usage = `usage: delayed-test COMMAND [flags]

  produce  -redis URL -queue NAME [-acknowledge] [-timeout 5s]
                                                enqueue the calls read from standard input, and say
                                                so of each; fail when a reply takes longer than that
  produce  -redis URL -queue NAME -repeat N -path PATH [-offset N]
                                                enqueue PATH(offset), PATH(offset+1), ...
  bytes                                         print in hex what produce would push
  work     -redis URL -queue NAME -log FILE [-as PATH]...
                                                run messages until SIGHUP, SIGTERM or SIGINT
  sweep    -redis URL -queue NAME [-interval 1s]
                                                requeue what dead workers owned, until the same

URL is redis://HOST:PORT/DB or unix:///PATH?db=DB
`

func main() {
	if len(os.Args) < 2 {
		fmt.Fprint(os.Stderr, usage)
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2:]); err != nil {
		logError("%v", err)
		os.Exit(1)
	}
}

func run(command string, args []string) error {
	flags := flag.NewFlagSet(command, flag.ExitOnError)
	flags.Usage = func() { fmt.Fprint(os.Stderr, usage) }
	url := flags.String("redis", "redis://127.0.0.1:6379/0", "")
	name := flags.String("queue", "default", "")

	switch command {
	case "produce":
		repeat := flags.Int("repeat", 0, "")
		path := flags.String("path", "", "")
		offset := flags.Int("offset", 0, "")
		acknowledge := flags.Bool("acknowledge", false, "")
		patience := flags.Duration("timeout", 0, "")
		flags.Parse(args)
		calls := stdinCalls(os.Stdin)
		if *repeat > 0 {
			if *path == "" {
				return fmt.Errorf("-repeat needs -path")
			}
			calls = repeatedCalls(*path, *offset, *repeat)
		}
		timeout := redis.DialReadTimeout(*patience)
		return produce(newQueue(*name, *url, timeout), calls, *acknowledge, os.Stdout)
	case "bytes":
		flags.Parse(args)
		return printBytes(stdinCalls(os.Stdin), os.Stdout)
	case "work":
		log := flags.String("log", "", "")
		var aliases paths
		flags.Var(&aliases, "as", "")
		flags.Parse(args)
		if *log == "" {
			return fmt.Errorf("work needs -log")
		}
		return work(newQueue(*name, *url), newHandlers(*log, aliases), stopSignals())
	case "sweep":
		interval := flags.Duration("interval", time.Second, "")
		flags.Parse(args)
		return sweep(newQueue(*name, *url), *interval, stopSignals())
	}
	return fmt.Errorf("no command %q\n%s", command, usage)
}

// paths is a flag that may be given several times.
type paths []string

func (p *paths) String() string { return fmt.Sprint(*p) }

func (p *paths) Set(path string) error {
	*p = append(*p, path)
	return nil
}

// stopSignals returns a channel that is closed at the first request to stop.
func stopSignals() <-chan struct{} {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGHUP, syscall.SIGTERM, syscall.SIGINT)
	stop := make(chan struct{})
	go func() {
		<-signals
		close(stop)
	}()
	return stop
}

func logError(format string, values ...interface{}) {
	fmt.Fprintf(os.Stderr, "ERROR "+format+"\n", values...)
}
