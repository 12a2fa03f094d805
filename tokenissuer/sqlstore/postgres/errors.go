package postgres

import (
	"context"
	"crypto/tls"
	"database/sql/driver"
	"errors"
	"io"
	"net"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// Code returns the SQLSTATE of an error that the server sent, or "" for any other error.
func Code(err error) string {
	var refusal *pgconn.PgError
	if errors.As(err, &refusal) {
		return refusal.Code
	}
	return ""
}

// RefusesValue reports whether the server refused a value rather than the statement: for example text that its encoding lacks, or that is
// too long for an index. Nothing has happened then.
func RefusesValue(err error) bool {
	code := Code(err)
	return strings.HasPrefix(code, "22") || strings.HasPrefix(code, "23") || strings.HasPrefix(code, "54")
}

// IsUnreachable reports whether opening the database failed because it was temporarily unavailable, and may succeed later. A wrong
// password or another version of the schema is not such an error.
func IsUnreachable(err error) bool {
	if code := Code(err); code != "" {
		switch code[:min(2, len(code))] {
		case "08", "53", "57", "40": // connection, resources, operator intervention (starting up), conflict
			return true
		}
		return code == "25006" // read-only: a standby that is about to be promoted
	}
	var uncertified *tls.CertificateVerificationError
	if errors.As(err, &uncertified) {
		return false
	}
	var failure *pgconn.ConnectError
	var network net.Error
	return errors.As(err, &failure) || errors.As(err, &network) || errors.Is(err, context.DeadlineExceeded) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, driver.ErrBadConn) ||
		errors.Is(err, pgconn.ErrConnClosed) // the server went away between two queries
}
