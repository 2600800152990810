// How does a worker live? It claims and runs one message at a time, and never releases any.
package main

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"time"
)

const (
	beat       = 15 * time.Second
	firstSleep = time.Second
	longSleep  = time.Minute
)

// work runs messages until stop is closed. What it claimed last stays its own, also when finished:
// the next claim overwrites it, and after the end a sweeper puts it back.
func work(q *queue, handlers handlers, stop <-chan struct{}) error {
	id := make([]byte, 16)
	if _, err := rand.Read(id); err != nil {
		return err
	}
	q.workerID = hex.EncodeToString(id)
	if err := q.keepAlive(); err != nil {
		return err
	}
	fmt.Printf("READY %s\n", q.workerID)

	stopped := make(chan struct{})
	beating := make(chan struct{})
	go func() {
		defer close(beating)
		heartbeat(q, stopped)
	}()
	for !closed(stop) {
		claimAndRun(q, handlers, stop)
	}
	close(stopped)
	<-beating
	return q.goOffline()
}

func heartbeat(q *queue, stopped <-chan struct{}) {
	ticker := time.NewTicker(beat)
	defer ticker.Stop()
	for {
		select {
		case <-stopped:
			return
		case <-ticker.C:
			if err := q.keepAlive(); err != nil {
				logError("%v", err)
			}
		}
	}
}

// claimAndRun returns when it shall stop, or after a panic, which also resets the sleep.
func claimAndRun(q *queue, handlers handlers, stop <-chan struct{}) {
	defer func() {
		if p := recover(); p != nil {
			logError("panic: %v", p)
		}
	}()
	sleep := firstSleep
	for !closed(stop) {
		message, err := q.claim()
		if err != nil {
			logError("claim: %v", err)
			select { // go-delayed sleeps it out; on the wire that looks the same
			case <-stop:
			case <-time.After(sleep):
			}
			if sleep *= 2; sleep > longSleep {
				sleep = longSleep
			}
			continue
		}
		sleep = firstSleep
		if message == nil {
			continue
		}
		handler, ok := handlers[message.FuncPath]
		if !ok {
			fmt.Fprintf(os.Stderr, "IGNORED %s\n", message.FuncPath)
			continue
		}
		if err := handler(message.Payload); err != nil {
			logError("%s: %v", message.FuncPath, err)
		}
	}
}

func closed(signal <-chan struct{}) bool {
	select {
	case <-signal:
		return true
	default:
		return false
	}
}
