// An authenticator of Chromium (WebAuthn Level 3 §11): that of a telephone, or a security key.

// authenticator gives a page an authenticator and returns it.
export async function authenticator(page, transport = 'internal') {
  const client = await page.context().newCDPSession(page)
  await client.send('WebAuthn.enable', { enableUI: false })
  const { authenticatorId } = await client.send('WebAuthn.addVirtualAuthenticator', {
    options: {
      protocol: 'ctap2', transport, hasResidentKey: true, hasUserVerification: true, isUserVerified: true, automaticPresenceSimulation: false,
    },
  })
  const send = (method, parameters = {}) => client.send(`WebAuthn.${method}`, { authenticatorId, ...parameters })
  return {
    // touched has it used whenever it is asked, as long as run takes.
    async touched(run) {
      await send('setAutomaticPresenceSimulation', { enabled: true })
      await run()
      await send('setAutomaticPresenceSimulation', { enabled: false })
    },
    // passkeys are the credentials that it holds.
    passkeys: async () => (await send('getCredentials')).credentials,
    // verifies says whether it can verify the user from now on.
    verifies: (isUserVerified) => send('setUserVerified', { isUserVerified }),
  }
}
