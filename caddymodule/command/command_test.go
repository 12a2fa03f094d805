package command

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// TestAFailureShowsNoHelp: a command that fails shows its error alone, and wrong usage shows the help.
func TestAFailureShowsNoHelp(t *testing.T) {
	for failure, shows := range map[string]bool{"": true, "the store is away": false} {
		cmd := command("do THING", "Does a thing", cobra.ExactArgs(1), func(*cobra.Command, []string) error { return errors.New(failure) })
		var out bytes.Buffer
		cmd.SetOut(&out)
		cmd.SetErr(&out)
		cmd.SetArgs([]string{"it"})
		if shows {
			cmd.SetArgs(nil)
		}
		if err := cmd.Execute(); err == nil || strings.Contains(out.String(), "Usage:") != shows || !strings.Contains(out.String(), failure) {
			t.Errorf("%v, printed %q", err, out.String())
		}
	}
}
