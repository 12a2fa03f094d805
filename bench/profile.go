package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gatehouse-auth/gatehouse/bench/internal/proc"
)

// profileTime is how long one side is profiled.
const profileTime = 8 * time.Second

// profile writes a CPU profile of each side after its measurement, because profiling costs time too. It skips sides
// whose requests can be sent only once, and servers without an admin endpoint.
func (b *bench) profile(sides []side) {
	if b.profiles == "" {
		return
	}
	check(os.MkdirAll(b.profiles, 0o750))
	for _, s := range sides {
		if s.prepare != nil || s.on.Admin == "" {
			continue
		}
		name := b.report.Name + " " + s.name
		file := filepath.Join(b.profiles, strings.NewReplacer(" ", "-", ",", "", "(", "", ")", "", "/", "").Replace(name)+".pprof")
		named("a profile of "+s.name, func() { check(b.profileOf(s, file)) })
	}
}

// profileOf sends one side's load for as long as the profile takes.
func (b *bench) profileOf(s side, file string) error {
	out, err := os.Create(file)
	if err != nil {
		return err
	}
	stop := b.inBackground(s.load, cmp.Or(s.conns, b.conns))
	path := fmt.Sprintf("/debug/pprof/profile?seconds=%d", int(profileTime.Seconds()))
	err = proc.Admin(b.ctx, s.on.Admin, path, func(body io.Reader) error {
		_, err := io.Copy(out, body)
		return err
	})
	stop()
	return errors.Join(err, out.Close())
}
