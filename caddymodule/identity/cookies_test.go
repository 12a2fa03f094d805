package identity

import (
	"net/http"
	"reflect"
	"testing"
)

func TestG57OurCookiesNeverReachTheUpstream(t *testing.T) {
	for name, test := range map[string]struct{ lines, want []string }{
		"absent":          {[]string{"a=1; b=2"}, []string{"a=1; b=2"}},
		"alone":           {[]string{"accessToken=t"}, nil},
		"first":           {[]string{"accessToken=t; a=1"}, []string{"a=1"}},
		"last":            {[]string{"a=1; accessToken=t"}, []string{"a=1"}},
		"middle":          {[]string{`a="x y";  accessToken=t;b=2 `}, []string{`a="x y";b=2 `}},
		"both, and twice": {[]string{"accessToken=t; session=s; a=1; accessToken=u"}, []string{"a=1"}},
		"several lines":   {[]string{"accessToken=t", "a=1", "b=2; session=s"}, []string{"a=1", "b=2"}},
		"odd spacing":     {[]string{"a=1;\taccessToken =t;session=s;"}, []string{"a=1;"}},
		"nothing left":    {[]string{"accessToken=t; ;", "session"}, nil},
		"without a name":  {[]string{"=accessToken=t; a=1"}, []string{"a=1"}},
		"longer names":    {[]string{" xaccessToken=1; accessTokens=2; a=accessToken=3"}, []string{" xaccessToken=1; accessTokens=2; a=accessToken=3"}},
		"other case":      {[]string{"AccessToken=1"}, []string{"AccessToken=1"}},
	} {
		shared := append([]string(nil), test.lines...)
		h := http.Header{"Cookie": shared}
		WithoutCookies(h, "accessToken", "session")
		if !reflect.DeepEqual(h["Cookie"], test.want) {
			t.Errorf("%s: %q, want %q", name, h["Cookie"], test.want)
		}
		if !reflect.DeepEqual(shared, test.lines) {
			t.Errorf("%s: the client's request was changed to %q", name, shared)
		}
	}
	h, names := http.Header{"Cookie": {"a=1; b=2"}}, []string{"accessToken", "session"}
	if n := testing.AllocsPerRun(100, func() { WithoutCookies(h, names...) }); n != 0 {
		t.Errorf("%v allocations where there is nothing of ours", n)
	}
}
