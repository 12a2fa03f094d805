package trust

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"syscall"
)

// addressGuard decides what may be dialled. Without it, whoever has a say in an issuer's DNS or metadata could have us
// talk to what only we can reach.
type addressGuard struct {
	// private opens the addresses that a house gives out itself.
	private bool
}

// specialRange is a range that is not on the public internet. An inner one is opened by allow_private_network; the others
// are nobody's identity provider.
type specialRange struct {
	prefix netip.Prefix
	what   string
	inner  bool
}

// specialRanges are those of the IANA IPv4 and IPv6 Special-Purpose Address Registries (RFC 6890) that are not globally
// reachable, multicast, and where clouds keep their secrets.
var specialRanges = []specialRange{
	{netip.MustParsePrefix("169.254.169.254/32"), "a cloud's metadata", false},
	{netip.MustParsePrefix("169.254.170.0/24"), "a cloud's metadata", false},
	{netip.MustParsePrefix("fd00:ec2::/64"), "a cloud's metadata", false},
	{netip.MustParsePrefix("fd20:ce::254/128"), "a cloud's metadata", false},
	{netip.MustParsePrefix("100.100.100.200/32"), "a cloud's metadata", false},
	{netip.MustParsePrefix("168.63.129.16/32"), "a cloud's metadata", false},
	{netip.MustParsePrefix("0.0.0.0/8"), "this network", false},
	{netip.MustParsePrefix("10.0.0.0/8"), "private", true},
	{netip.MustParsePrefix("100.64.0.0/10"), "shared (CGNAT)", true},
	{netip.MustParsePrefix("127.0.0.0/8"), "loopback", true},
	{netip.MustParsePrefix("169.254.0.0/16"), "link-local", true},
	{netip.MustParsePrefix("172.16.0.0/12"), "private", true},
	{netip.MustParsePrefix("192.0.0.0/24"), "a protocol assignment", false},
	{netip.MustParsePrefix("192.0.2.0/24"), "documentation", true},
	{netip.MustParsePrefix("192.88.99.0/24"), "a 6to4 relay", false},
	{netip.MustParsePrefix("192.168.0.0/16"), "private", true},
	{netip.MustParsePrefix("198.18.0.0/15"), "benchmarking", true},
	{netip.MustParsePrefix("198.51.100.0/24"), "documentation", true},
	{netip.MustParsePrefix("203.0.113.0/24"), "documentation", true},
	{netip.MustParsePrefix("224.0.0.0/4"), "multicast", false},
	{netip.MustParsePrefix("240.0.0.0/4"), "reserved", false},
	{netip.MustParsePrefix("::1/128"), "loopback", true},
	{netip.MustParsePrefix("fc00::/7"), "private", true},
	{netip.MustParsePrefix("fe80::/10"), "link-local", true},
	{netip.MustParsePrefix("2001::/23"), "a protocol assignment", false},
	{netip.MustParsePrefix("2001:db8::/32"), "documentation", true},
	{netip.MustParsePrefix("2002::/16"), "6to4", false},
	{netip.MustParsePrefix("3fff::/20"), "documentation", true},
}

var (
	// globalUnicast is all of IPv6 that has been given out to the internet.
	globalUnicast = netip.MustParsePrefix("2000::/3")
	// nat64 has an IPv4 address in its last four bytes (RFC 6052 §2.1). A network without IPv4 reaches the internet by it.
	nat64 = netip.MustParsePrefix("64:ff9b::/96")
)

// checkURL holds a URL to https. Plain http is for a test on one's own machine; control sees to it that it goes nowhere
// else.
func (g addressGuard) checkURL(u *url.URL) error {
	switch {
	case u.Host == "" || u.Opaque != "" || u.User != nil:
		return fmt.Errorf("%q is no URL of an issuer", u.Redacted())
	case u.Scheme == "https", u.Scheme == "http" && g.private:
		return nil
	}
	return fmt.Errorf("%s must be https", u)
}

// parseURL reads a URL that may be asked.
func (g addressGuard) parseURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil {
		return nil, err
	}
	return u, g.checkURL(u)
}

// schemeKey is the key of the scheme in a context: a dialler is told the address, not what will be spoken.
type schemeKey struct{}

func withScheme(ctx context.Context, scheme string) context.Context {
	return context.WithValue(ctx, schemeKey{}, scheme)
}

// control is called for every address before it is connected to.
func (g addressGuard) control(ctx context.Context, _, address string, _ syscall.RawConn) error {
	dialled, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("%w: %w", errAddress, err)
	}
	ip := dialled.Addr().Unmap().WithZone("")
	if ctx.Value(schemeKey{}) != "https" && !ip.IsLoopback() {
		return fmt.Errorf("%w: %s is not loopback, and it is not https", errAddress, ip)
	}
	return g.check(ip)
}

var errAddress = errors.New("address refused")

// check refuses an address that is special.
func (g addressGuard) check(ip netip.Addr) error {
	if nat64.Contains(ip) {
		bytes := ip.As16()
		ip = netip.AddrFrom4([4]byte(bytes[12:]))
	}
	for _, special := range specialRanges {
		if !special.prefix.Contains(ip) {
			continue
		}
		if special.inner && g.private {
			return nil
		}
		if special.inner {
			return fmt.Errorf("%w: %s is %s; allow_private_network would open it", errAddress, ip, special.what)
		}
		return fmt.Errorf("%w: %s is %s", errAddress, ip, special.what)
	}
	if ip.Is6() && !globalUnicast.Contains(ip) {
		return fmt.Errorf("%w: %s is not on the internet", errAddress, ip)
	}
	return nil
}
