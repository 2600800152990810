// Package peer is what the peers in Go share: what a run writes, and the loop that sends.
package peer

import (
	"encoding/binary"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// Tally has of each call when it was sent, when it began, and how often it ran.
type Tally struct {
	bytes []byte
	calls int
}

// OpenTally opens the one that the environment names.
func OpenTally() *Tally {
	file, err := os.OpenFile(os.Getenv("BENCH_TALLY"), os.O_RDWR, 0)
	Must(err)
	defer file.Close()
	info, err := file.Stat()
	Must(err)
	bytes, err := syscall.Mmap(int(file.Fd()), 0, int(info.Size()), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	Must(err)
	return &Tally{bytes, int(info.Size() / 17)}
}

// Count says that a run of this call began.
func (t *Tally) Count(number int) {
	t.bytes[16*t.calls+number]++
}

// Mark says that a run of this call began, now.
func (t *Tally) Mark(number int) {
	binary.LittleEndian.PutUint64(t.bytes[8*(t.calls+number):], Now())
	t.Count(number)
}

// Sent says when this call was sent.
func (t *Tally) Sent(number int, at uint64) {
	binary.LittleEndian.PutUint64(t.bytes[8*number:], at)
}

// Now is the monotonic clock of the machine, in nanoseconds.
func Now() uint64 {
	var now unix.Timespec
	Must(unix.ClockGettime(unix.CLOCK_MONOTONIC, &now))
	return uint64(now.Nano())
}

// Must ends the program when there is an error.
func Must(err error) {
	if err != nil {
		panic(err)
	}
}
