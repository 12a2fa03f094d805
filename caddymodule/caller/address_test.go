package caller

import "testing"

// TestT21T75T131ANetworkIsOneAddress: an address of IPv6 → its /64; IPv4, also within IPv6 → as it is; no address → itself.
func TestT21T75T131ANetworkIsOneAddress(t *testing.T) {
	for text, want := range map[string]string{
		"192.0.2.1": "192.0.2.1", "::ffff:192.0.2.1": "192.0.2.1", "2001:db8:1:2::1": "2001:db8:1:2::/64", "2001:db8:1:2:ffff::9": "2001:db8:1:2::/64",
		"2001:db8:1:3::1": "2001:db8:1:3::/64", "fe80::1%eth0": "fe80::/64", "": "", "x": "x",
	} {
		if got := Network(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
