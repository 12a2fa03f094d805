(() => {
	const api = window.PublicKeyCredential
	if (!api || !navigator.credentials) return

	const signal = (method, text) => text && api[method]?.(JSON.parse(text)).catch(() => {})
	const told = document.querySelector('[data-accepted], [data-unknown]')
	signal('signalAllAcceptedCredentials', told?.dataset.accepted)
	signal('signalUnknownCredential', told?.dataset.unknown)

	const form = document.getElementById('passkey')
	if (!form) return
	const decode = (text) => Uint8Array.from(atob(text.replace(/-/g, '+').replace(/_/g, '/')), (c) => c.charCodeAt(0))
	const encode = (bytes) => btoa(String.fromCharCode(...new Uint8Array(bytes))).replace(/\+/g, '-').replace(/\//g, '_').replace(/=/g, '')
	const action = form.dataset.create ? 'create' : 'get'
	const publicKey = JSON.parse(form.dataset[action])
	publicKey.challenge = decode(publicKey.challenge)
	if (publicKey.user) publicKey.user.id = decode(publicKey.user.id)
	for (const known of publicKey.allowCredentials || publicKey.excludeCredentials || []) known.id = decode(known.id)

	let asking
	const show = (error) => {
		for (const id of ['passkey-failed', 'passkey-taken']) {
			const notice = document.getElementById(id)
			if (notice) notice.hidden = id !== error
		}
	}
	const ask = async (mediation) => {
		asking?.abort()
		const { signal } = asking = new AbortController()
		try {
			const credential = await navigator.credentials[action]({ publicKey, mediation, signal })
			const response = {}
			for (const name of ['clientDataJSON', 'attestationObject', 'authenticatorData', 'signature', 'userHandle']) {
				if (credential.response[name]) response[name] = encode(credential.response[name])
			}
			response.transports = credential.response.getTransports?.()
			form.elements.passkey.value = JSON.stringify({ id: credential.id, rawId: encode(credential.rawId), type: credential.type, response })
			form.submit()
		} catch (error) {
			if (signal.aborted || mediation) return
			show(error.name === 'InvalidStateError' ? 'passkey-taken' : 'passkey-failed')
			autofill()
		}
	}
	const autofill = async () => {
		if (document.querySelector('[autocomplete~=webauthn]') && await api.isConditionalMediationAvailable?.()) ask('conditional')
	}
	form.addEventListener('submit', (event) => {
		event.preventDefault()
		show()
		ask()
	})
	form.hidden = false
	const without = document.getElementById('passkey-unsupported')
	if (without) without.hidden = true
	autofill()
})()
