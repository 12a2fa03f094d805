package endpoint

import (
	"bytes"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// TestACrowdRaisesNoAlarm: what many clients can cause together is not logged as an error, nor with a line for each request. A server fault
// is.
func TestACrowdRaisesNoAlarm(t *testing.T) {
	var log bytes.Buffer
	core := zapcore.NewCore(zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig()), zapcore.AddSync(&log), zap.DebugLevel)
	audit := NewAudit(zap.New(core), func(*http.Request) string { return "192.0.2.1" }) // the same address for all, so that none hides another
	for _, v := range []struct {
		refusal *oauth.Error
		level   string
		lines   int
	}{
		{oauth.ErrVerificationBusy.WithCause(errors.New("full")), "warn", 1}, {oauth.ErrIntrospectionBusy, "warn", 1},
		{oauth.ErrHashingBusy, "warn", 1}, {oauth.Unavailable("store_unavailable", nil), "error", 50},
	} {
		t.Run(v.refusal.Reason, func(t *testing.T) {
			log.Reset()
			for range 50 {
				audit.Refused(httptest.NewRequest(http.MethodGet, "/", nil), "request refused at the gate", v.refusal)
			}
			of := strings.Count(log.String(), `"level":"`+v.level+`"`)
			if all := strings.Count(log.String(), "\n"); all != v.lines || of != all {
				t.Errorf("%d lines, %d of them at %s, want %d:\n%s", all, of, v.level, v.lines, log.String())
			}
		})
	}
}
