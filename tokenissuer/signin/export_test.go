package signin

// The reasons of refusals, for external tests. They import package people, which imports this package.
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
