// How is lost work brought back? A pass over the queue, again and again.
package main

import (
	"fmt"
	"time"
)

// sweep prints a line for every pass, also when there was nothing to do: `requeued 0`.
func sweep(q *queue, interval time.Duration, stop <-chan struct{}) error {
	for {
		if count, err := q.requeueLost(); err != nil {
			logError("sweep: %v", err)
		} else {
			fmt.Printf("requeued %d\n", count)
		}
		select {
		case <-stop:
			return nil
		case <-time.After(interval):
		}
	}
}
