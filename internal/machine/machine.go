// Package machine measures how busy the machine is. With it a test can check a time against the number that a document promises. Only
// tests import it.
//
//	func TestMain(m *testing.M) { machine.Watch(); os.Exit(m.Run()) }
//
//	if took := machine.Fair(time.Since(began)); took > promised { t.Errorf(…) }
package machine

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"
)

// interval is the time between two samples.
const interval = 20 * time.Millisecond

// sample is the number of runnable threads on the whole machine at a moment.
type sample struct {
	at      time.Time
	running int
}

var (
	once    sync.Once
	mu      sync.Mutex
	samples []sample
)

// Watch starts taking samples until the process ends. Further calls do nothing.
func Watch() {
	once.Do(func() { go watch() })
}

func watch() {
	file, err := os.Open("/proc/loadavg")
	if err != nil {
		return // a system without such a file: every time is fair
	}
	defer func() { _ = file.Close() }()
	for {
		running, err := runnable(file)
		if err != nil {
			return
		}
		mu.Lock()
		samples = append(samples, sample{time.Now(), running})
		mu.Unlock()
		time.Sleep(interval)
	}
}

// runnable returns how many threads of the machine run or wait for a processor, without the calling one.
func runnable(loadavg io.ReaderAt) (int, error) {
	var text [128]byte
	n, err := loadavg.ReadAt(text[:], 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return 0, err
	}
	return parse(string(text[:n]))
}

// parse parses the fourth field of /proc/loadavg, such as 3/345 (proc_loadavg(5)).
func parse(text string) (int, error) {
	fields := strings.Fields(text)
	if len(fields) < 4 {
		return 0, fmt.Errorf("reading %q: too few fields", text)
	}
	now, _, _ := strings.Cut(fields[3], "/")
	running, err := strconv.Atoi(now)
	if err != nil {
		return 0, fmt.Errorf("reading %q: %w", text, err)
	}
	if running < 1 {
		return 0, errors.New("no thread runs, not even the one that reads this")
	}
	return running - 1, nil
}

// Fair returns how long something that has just ended, and took that long, would have taken if no thread had waited for a processor: with
// twice as many threads as processors on average, half of the time. On a machine that is not busy it returns took.
func Fair(took time.Duration) time.Duration {
	mu.Lock()
	defer mu.Unlock()
	return time.Duration(float64(took) / share(samples, time.Now().Add(-took), runtime.NumCPU()))
}

// Stretch returns how long something that just took place may have taken, given the time promised for a machine that is not busy. It
// multiplies by what Fair divides by.
func Stretch(promised time.Duration) time.Duration {
	mu.Lock()
	defer mu.Unlock()
	return time.Duration(float64(promised) * share(samples, time.Now().Add(-promised), runtime.NumCPU()))
}

// share returns the average number of threads per processor since a moment, at least one.
func share(samples []sample, since time.Time, processors int) float64 {
	sum, count := 0, 0
	for i := len(samples) - 1; i >= 0; i-- {
		sum += samples[i].running
		count++
		if samples[i].at.Before(since) {
			break
		}
	}
	return max(1, float64(sum)/float64(max(1, count))/float64(processors))
}
