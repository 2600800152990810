package peer

import (
	"bufio"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"
)

const tick = uint64(time.Millisecond)

// Send enqueues one call, with data when it carries some. Several goroutines may call it.
type Send func(task string, number int, data []byte)

// Queues are those that calls go to, by turns.
func Queues() []string {
	if names := os.Getenv("BENCH_QUEUES"); names != "" {
		return strings.Split(names, ",")
	}
	return []string{"bench"}
}

// Run is a call of one of the tasks.
func Run(tally *Tally, task string, number int) {
	switch task {
	case "mark":
		tally.Mark(number)
		return
	case "mixed":
		pause := time.Millisecond
		if number%10 == 0 {
			pause = 100 * time.Millisecond
		}
		time.Sleep(pause)
	}
	tally.Count(number)
}

// Stopped is closed when the program is told to stop.
func Stopped() <-chan struct{} {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM)
	stopped := make(chan struct{})
	go func() {
		<-signals
		close(stopped)
	}()
	return stopped
}

// Answer sends what the lines of the standard input ask for, until it ends.
func Answer(send Send) {
	tally := OpenTally()
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var how, task string
		var first, count, amount int
		_, err := fmt.Sscan(lines.Text(), &how, &task, &first, &count, &amount)
		Must(err)
		began := Now()
		switch how {
		case "bulk":
			data := []byte(strings.Repeat("x", amount))
			for number := first; number < first+count; number++ {
				send(task, number, data)
			}
		case "each":
			each(send, task, first, first+count, amount)
		case "paced":
			paced(send, tally, task, first, count, amount)
		}
		fmt.Println(began, Now())
	}
	Must(lines.Err())
}

func each(send Send, task string, first, last, tasks int) {
	var running sync.WaitGroup
	for at := 0; at < tasks; at++ {
		running.Add(1)
		go func() {
			defer running.Done()
			for number := first + at; number < last; number += tasks {
				send(task, number, nil)
			}
		}()
	}
	running.Wait()
}

// paced sends so many each second. A call counts as sent when its turn had come, if that was missed.
func paced(send Send, tally *Tally, task string, first, count, rate int) {
	began, done := Now(), 0
	for turn := 1; done < count; turn++ {
		due := began + uint64(turn)*tick
		if now := Now(); now < due {
			time.Sleep(time.Duration(due - now))
		}
		end := min(count, turn*rate/1000)
		sent := Now()
		if sent > due+2*tick {
			sent = due
		}
		for number := done; number < end; number++ {
			tally.Sent(first+number, sent)
		}
		for ; done < end; done++ {
			send(task, first+done, nil)
		}
	}
}
