package command

import (
	"slices"
	"testing"

	"github.com/gatehouse-auth/gatehouse/caddymodule/admin"
)

// TestX23ARefusalNamesWhatIsMissing: an event of the gate that refused for want of something → the table says what, beside the reason.
func TestX23ARefusalNamesWhatIsMissing(t *testing.T) {
	for line, want := range map[string]string{
		`{"msg":"request refused at the gate","reason":"rule","missing":"group writers"}`: "rule (group writers)",
		`{"msg":"request refused at the gate","reason":"token_missing"}`:                  "token_missing",
	} {
		row, err := auditRow(&admin.AuditEvent{Line: []byte(line)})
		if err != nil || !slices.Contains(row, want) {
			t.Errorf("%s: %q, %v", line, row, err)
		}
	}
}
