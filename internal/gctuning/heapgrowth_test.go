package gctuning

import (
	"errors"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
	"time"
)

const room = 32 << 20

// TestMain lets a test have a process of its own: the percentage belongs to the process, and AllowGrowth counts once.
func TestMain(m *testing.M) {
	switch os.Getenv("GCTUNING_PROCESS") {
	case "small":
		small()
	case "large":
		large()
	case "other":
		other()
	case "rest":
		rest()
	default:
		os.Exit(m.Run())
	}
}

func TestAllowGrowth(t *testing.T) {
	for _, process := range []struct {
		name string
		env  []string
		want string
	}{
		{"small", nil, "800 before a collection, more than 100 after it"},
		{"small", []string{"GOGC=150"}, "150"},
		{"large", nil, "100 for a large heap"},
		{"other", nil, "50, which somebody else has set"},
		{"rest", nil, "given back"},
		{"rest", []string{"GOGC=1000"}, "given back"},
	} {
		t.Run(process.want, func(t *testing.T) {
			cmd := exec.Command(os.Args[0])
			for _, variable := range os.Environ() {
				if len(variable) < 5 || variable[:5] != "GOGC=" {
					cmd.Env = append(cmd.Env, variable)
				}
			}
			cmd.Env = append(append(cmd.Env, "GCTUNING_PROCESS="+process.name), process.env...)
			out, err := cmd.Output()
			var failure *exec.ExitError
			if errors.As(err, &failure) {
				t.Logf("the process says: %s", failure.Stderr)
			}
			if err != nil || string(out) != process.want {
				t.Errorf("%q, %v; want %q", out, err, process.want)
			}
		})
	}
}

func TestPercentFor(t *testing.T) {
	for live, want := range map[uint64]int{0: 800, 4 << 20: 800, 10 << 20: 300, 15 << 20: 200, 31 << 20: 100, 32 << 20: 100, 1 << 40: 100} {
		if got := percentFor(room, live); got != want {
			t.Errorf("%d MiB live: %d, want %d", live>>20, got, want)
		}
	}
}

// percent is GOGC as the runtime has it.
func percent() int {
	sample := []metrics.Sample{{Name: "/gc/gogc:percent"}}
	metrics.Read(sample)
	return int(sample[0].Value.Uint64())
}

// until collects until the percentage is as it should be.
func until(good func(int) bool) {
	for deadline := time.Now().Add(2 * time.Minute); !good(percent()); runtime.Gosched() {
		if time.Now().After(deadline) {
			println("it is", percent())
			os.Exit(1)
		}
		runtime.GC()
	}
}

func small() {
	AllowGrowth(room)
	if _, chosen := os.LookupEnv("GOGC"); chosen {
		runtime.GC()
		if percent() != 150 {
			os.Exit(1)
		}
		os.Stdout.WriteString("150")
		return
	}
	if percent() != 800 {
		println("it is", percent())
		os.Exit(1)
	}
	kept := make([]*[1 << 20]byte, 10)
	for i := range kept {
		kept[i] = new([1 << 20]byte)
	}
	until(func(p int) bool { return p > 100 && p < 800 }) // it has seen the ten
	runtime.KeepAlive(kept)
	os.Stdout.WriteString("800 before a collection, more than 100 after it")
}

func large() {
	AllowGrowth(room)
	kept := make([]byte, 64<<20)
	until(func(p int) bool { return p == 100 })
	runtime.KeepAlive(kept)
	os.Stdout.WriteString("100 for a large heap")
}

// other changes the percentage after AllowGrowth did. What is kept grows, so that AllowGrowth would change it again, and again.
func other() {
	AllowGrowth(room)
	debug.SetGCPercent(50)
	kept := make([]byte, 20<<20)
	for range 10 {
		runtime.GC()
		ran := make(chan struct{})
		runtime.SetFinalizer(&struct{ p *int }{}, func(*struct{ p *int }) { close(ran) })
		for waiting := true; waiting; { // what a collection found runs in turns
			runtime.GC()
			select {
			case <-ran:
				waiting = false
			case <-time.After(time.Millisecond):
			}
		}
	}
	if percent() != 50 {
		println("it is", percent())
		os.Exit(1)
	}
	runtime.KeepAlive(kept)
	os.Stdout.WriteString("50, which somebody else has set")
}
