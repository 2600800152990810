// How are calls sent? As two commands for each, without a transaction.
package main

import (
	"encoding/hex"
	"fmt"
	"io"
)

// produce says of each call that it was sent, when it shall acknowledge.
func produce(q *queue, calls calls, acknowledge bool, out io.Writer) error {
	sent := 0
	err := calls(func(message []byte) error {
		if err := q.enqueue(message); err != nil {
			return err
		}
		sent++
		if acknowledge {
			fmt.Fprintln(out, "acknowledged")
		}
		return nil
	})
	fmt.Fprintf(out, "sent %d\n", sent)
	return err
}

func printBytes(calls calls, out io.Writer) error {
	return calls(func(message []byte) error {
		_, err := fmt.Fprintln(out, hex.EncodeToString(message))
		return err
	})
}
