package pages

import "time"

// The notices of the page for devices.
const (
	// WrongUserCode means that no device waits for the code.
	WrongUserCode Notice = "wrong_user_code"
)

// Device asks for the code that a device shows (field `user_code`).
type Device struct {
	Form   Form
	Notice Notice
	// RetryAfter is for TooManyCodes.
	RetryAfter time.Duration
	// UserCode prefills the field.
	UserCode string
	// User and Email identify the signed-in user.
	User, Email string
	// SwitchURL is the sign-in page for another account.
	SwitchURL string
}

// AskingDevice is a device that asks for access.
type AskingDevice struct {
	// Address is the network address that it asked from.
	Address string
	AskedAt time.Time
}

// DeviceDecided tells the user that a device has its answer.
type DeviceDecided struct {
	Allowed    bool
	ClientName string
	// AccountURL is the account page, where access can be revoked.
	AccountURL string
}

func (Device) template() string { return "device" }
func (Device) heading() string  { return "device.title" }
func (d Device) failed() bool   { return d.Notice.Failed() }

func (DeviceDecided) template() string { return "decided" }
func (DeviceDecided) failed() bool     { return false }
func (d DeviceDecided) heading() string {
	if d.Allowed {
		return "device.allowed.title"
	}
	return "device.denied.title"
}
