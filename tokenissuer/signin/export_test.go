package signin

// The reasons of refusals, for tests that need package people, which imports this one.
const (
	ReasonAddressTaken      = reasonAddressTaken
	ReasonAddressUnproven   = reasonAddressUnproven
	ReasonAddressUnusable   = reasonAddressUnusable
	ReasonAddressUnverified = reasonAddressUnverified
	ReasonEmailDomain       = reasonEmailDomain
	ReasonGroup             = reasonGroup
	ReasonInactive          = reasonInactive
	ReasonOtherAddress      = reasonOtherAddress
	ReasonOtherIdentity     = reasonOtherIdentity
	ReasonOtherProvider     = reasonOtherProvider
	ReasonRemoved           = reasonRemoved
	ReasonUnknown           = reasonUnknown
	ReasonUnlinked          = reasonUnlinked
)
