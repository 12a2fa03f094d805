package console

import (
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/caddymodule/admin"
)

func TestWhatTheConsoleSaysOfTheMailServer(t *testing.T) {
	if b := mailBlock(&admin.NodeStatus{}); len(b.Facts) > 0 || len(b.Words) != 1 {
		t.Errorf("without one: %+v", b)
	}
	for want, m := range map[int]admin.MailStatus{3: {LastSuccess: time.Unix(1, 0)}, 4: {Trouble: "refused", DownSince: time.Unix(1, 0)}} {
		if b := mailBlock(&admin.NodeStatus{Own: &admin.IssuerStatus{Mail: &m}}); len(b.Facts) != want {
			t.Errorf("%+v: %+v", m, b.Facts)
		}
	}
}
