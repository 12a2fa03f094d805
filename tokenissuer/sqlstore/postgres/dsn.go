package postgres

import (
	"errors"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// errMisread quotes nothing from the connection string, because any misread part may belong to the password.
var errMisread = errors.New("the connection string can be read neither as a URL nor as key=value words: " +
	"percent-encode what is special in a URL's password, and quote in words a value that has spaces")

// misreadings are errors of the library that do not quote the connection string.
var misreadings = []string{
	"invalid port", "invalid connect_timeout", "sslmode is invalid", "invalid sslcertmode", "invalid require_auth",
	"unknown target_session_attrs", "unknown channel_binding", "invalid min_protocol_version", "invalid max_protocol_version",
	"unterminated quoted string", "unable to read CA file", "unable to add CA to cert pool", "unable to read sslkey",
	"failed to decode sslkey", "unable to find sslpassword", "unable to decrypt key", "unable to read cert", "unable to load cert",
	`both "sslcert" and "sslkey" are required`, "failed to read service",
}

// Parse validates a connection string, a URL or key=value words, without connecting. As with psql, the PG… environment variables supply
// what it omits. The error quotes no part of it.
func Parse(dsn oauth.Secret) error {
	_, err := parse(dsn)
	return err
}

// Place returns the servers and the database of a connection string, without its credentials.
func Place(dsn oauth.Secret) (string, error) {
	config, err := parse(dsn)
	if err != nil {
		return "", err
	}
	database := config.Database
	if database == "" {
		database = config.User // as the server does
	}
	return fmt.Sprintf("database %s on %s", database, strings.Join(places(config), ", ")), nil
}

func parse(dsn oauth.Secret) (*pgx.ConnConfig, error) {
	if dsn.IsEmpty() {
		return nil, errors.New("the connection string is empty")
	}
	if isTorn(dsn.Reveal()) {
		return nil, errMisread
	}
	config, err := pgx.ParseConfig(dsn.Reveal())
	if err != nil {
		return nil, misread(err)
	}
	if !isPlausible(config) {
		return nil, errMisread
	}
	if config.ConnectTimeout == 0 {
		// A request that finds the first host dead must still reach the last one.
		config.ConnectTimeout = RequestTimeout / time.Duration(hosts(config))
	}
	if config.RuntimeParams["application_name"] == "" {
		config.RuntimeParams["application_name"] = "gatehouse"
	}
	if config.ValidateConnect == nil { // target_session_attrs was not given
		config.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	}
	return config, nil
}

// misread replaces an error of the library, whose text quotes the connection string and does not always redact the password.
func misread(err error) error {
	text := err.Error()
	i := slices.IndexFunc(misreadings, func(reason string) bool { return strings.Contains(text, reason) })
	if i < 0 {
		return errMisread
	}
	return fmt.Errorf("%w (%s)", errMisread, misreadings[i])
}

// isTorn reports whether a URL has an @ after the host, or a fragment. It then contains a password with an unencoded /, ? or #, part of
// which would be parsed as a port, a database or a setting.
func isTorn(dsn string) bool {
	_, rest, found := strings.Cut(dsn, "://")
	if !found {
		return false
	}
	end := strings.IndexAny(rest, "/?#")
	return strings.Contains(rest, "#") || end >= 0 && strings.Contains(rest[end:], "@")
}

var settingName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.]*$`)

// isPlausible reports whether the names in a configuration can be names. Those that cannot are parts of a password, and a connection
// would send them to a server.
func isPlausible(config *pgx.ConnConfig) bool {
	for name := range config.RuntimeParams {
		if !settingName.MatchString(name) {
			return false
		}
	}
	for _, name := range append(places(config), config.Database) {
		if strings.Contains(name, "@") || strings.ContainsFunc(name, unicode.IsSpace) {
			return false
		}
	}
	return true
}

// hosts returns the number of places that the connection string names, plus one if there are several, for what follows the connection.
func hosts(config *pgx.ConnConfig) int {
	n := len(places(config))
	if n > 1 {
		n++
	}
	return n
}

// places lists the places that the connection string names, in order. A place counts once, with and without TLS.
func places(config *pgx.ConnConfig) []string {
	list := []string{placeOf(config.Host, config.Port)}
	for _, fallback := range config.Fallbacks {
		if place := placeOf(fallback.Host, fallback.Port); !slices.Contains(list, place) {
			list = append(list, place)
		}
	}
	return list
}

func placeOf(host string, port uint16) string { return net.JoinHostPort(host, strconv.Itoa(int(port))) }
