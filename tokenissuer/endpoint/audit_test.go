package endpoint

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// TestACrowdRaisesNoAlarm: what clients can bring about by being many is no error, and has no line for each request. A fault of
// ours has one.
func TestACrowdRaisesNoAlarm(t *testing.T) {
	var log bytes.Buffer
	core := zapcore.NewCore(zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig()), zapcore.AddSync(&log), zap.DebugLevel)
	audit := NewAudit(zap.New(core), func(*http.Request) string { return "192.0.2.1" }) // one for all: none hides another
	for _, v := range []struct {
		reason, level string
		lines         int
	}{
		{oauth.ReasonVerificationBusy, "warn", 1}, {oauth.ReasonIntrospectionBusy, "warn", 1},
		{oauth.ReasonHashingBusy, "warn", 1}, {"store_unavailable", "error", 50},
	} {
		t.Run(v.reason, func(t *testing.T) {
			log.Reset()
			for range 50 {
				audit.Refused(httptest.NewRequest(http.MethodGet, "/", nil), "request refused at the gate", oauth.Unavailable(v.reason, nil))
			}
			of := strings.Count(log.String(), `"level":"`+v.level+`"`)
			if all := strings.Count(log.String(), "\n"); all != v.lines || of != all {
				t.Errorf("%d lines, %d of them at %s, want %d:\n%s", all, of, v.level, v.lines, log.String())
			}
		})
	}
}
