package fetch

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"syscall"
)

// Reach says which addresses beside those of the internet may be dialled.
type Reach uint8

const (
	// Internet is none.
	Internet Reach = iota
	// Loopback is loopback, with plain http too.
	Loopback
	// PrivateNetwork is loopback, with plain http too, and private and link-local addresses.
	PrivateNetwork
)

// ReachOf returns PrivateNetwork or Internet, as the setting allow_private_network has it.
func ReachOf(privateNetwork bool) Reach {
	if privateNetwork {
		return PrivateNetwork
	}
	return Internet
}

// addressGuard decides which addresses may be dialled. Without it, control over the DNS or metadata of a server would be enough to make
// us connect to hosts that only we can reach.
type addressGuard struct{ reach Reach }

// specialRange is a range that is not on the public internet. allow_private_network allows an inner one; no identity
// provider is in the others.
type specialRange struct {
	prefix netip.Prefix
	what   string
	inner  bool
}

// specialRanges lists the ranges of the IANA IPv4 and IPv6 Special-Purpose Address Registries (RFC 6890) that are not
// globally reachable, multicast, and the addresses of cloud metadata services.
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
	// globalUnicast is the part of IPv6 that is allocated to the internet.
	globalUnicast = netip.MustParsePrefix("2000::/3")
	// nat64 addresses contain an IPv4 address in their last four bytes (RFC 6052 §2.1). A network without IPv4 uses them
	// to reach the internet.
	nat64 = netip.MustParsePrefix("64:ff9b::/96")
)

// checkURL requires https. It allows plain http beyond the internet; control restricts that to loopback.
func (g addressGuard) checkURL(u *url.URL) error {
	switch {
	case u.Host == "" || u.Opaque != "" || u.User != nil:
		return fmt.Errorf("%s is no URL of a server", originOf(u))
	case u.Scheme == "https", u.Scheme == "http" && g.reach != Internet:
		return nil
	}
	return fmt.Errorf("%s must be https", originOf(u))
}

// parseURL parses and checks a URL.
func (g addressGuard) parseURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil {
		return nil, err
	}
	return u, g.checkURL(u)
}

// schemeKey is the context key of the URL's scheme, which control needs and a dialer is not told.
type schemeKey struct{}

func withScheme(ctx context.Context, scheme string) context.Context {
	return context.WithValue(ctx, schemeKey{}, scheme)
}

// control is called with every resolved address before it is connected to.
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

// CheckPublic returns an error for a URL whose host is, or leads by its name to, an address that is dialled with
// allow_private_network alone. A name that cannot be resolved now is no error.
func CheckPublic(ctx context.Context, text string) error {
	u, err := url.Parse(text)
	if err != nil {
		return err
	}
	addresses, _ := net.DefaultResolver.LookupNetIP(ctx, "ip", u.Hostname()) // an address is its own
	for _, ip := range addresses {
		if err := (addressGuard{}).check(ip.Unmap().WithZone("")); err != nil {
			return err
		}
	}
	return nil
}

var errAddress = errors.New("address refused")

// check returns an error for a special address.
func (g addressGuard) check(ip netip.Addr) error {
	if nat64.Contains(ip) {
		bytes := ip.As16()
		ip = netip.AddrFrom4([4]byte(bytes[12:]))
	}
	for _, special := range specialRanges {
		if !special.prefix.Contains(ip) {
			continue
		}
		if special.inner && (g.reach == PrivateNetwork || g.reach == Loopback && ip.IsLoopback()) {
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
