package pool

import (
	"errors"
	"testing"
)

// TestThingsEndWithTheirLastUse, and are made anew for who comes afterwards.
func TestThingsEndWithTheirLastUse(t *testing.T) {
	errEnd := errors.New("the end failed")
	made, ended := 0, 0
	p := New(func(int) error { ended++; return errEnd })
	take := func() *Use[int] {
		u, err := p.Take("settings", func() (int, error) { made++; return made, nil })
		if err != nil {
			t.Fatal(err)
		}
		return u
	}
	first, second := take(), take()
	if first.Value != 1 || second.Value != 1 || len(p.All()) != 1 {
		t.Errorf("%d and %d of %v", first.Value, second.Value, p.All())
	}
	if err := first.Release(); err != nil || ended != 0 {
		t.Errorf("%v, %d ended while one is used", err, ended)
	}
	if err := second.Release(); !errors.Is(err, errEnd) || ended != 1 || len(p.All()) != 0 {
		t.Errorf("%v, %d ended, %v left", err, ended, p.All())
	}
	if third := take(); third.Value != 2 {
		t.Errorf("%d after the end", third.Value)
	}
}

// TestWhatCannotBeMadeIsNotKept: the next configuration tries again.
func TestWhatCannotBeMadeIsNotKept(t *testing.T) {
	p := New(func(string) error { return nil })
	bad := errors.New("no")
	if _, err := p.Take(1, func() (string, error) { return "", bad }); !errors.Is(err, bad) || len(p.All()) != 0 {
		t.Errorf("%v, %v", err, p.All())
	}
	if u, err := p.Take(1, func() (string, error) { return "x", nil }); err != nil || u.Value != "x" {
		t.Errorf("%v, %v", u, err)
	}
	if err := (*Use[string])(nil).Release(); err != nil {
		t.Error(err)
	}
}
