// Serves node oidc-provider as the issuer that the gate trusts, gets tokens from it with openid-client, and takes them to
// the gate, while the provider rotates its keys, is away and comes back.

import assert from 'node:assert/strict'
import { createServer } from 'node:http'
import { exportJWK, generateKeyPair, importJWK, SignJWT } from 'jose'
import { Provider } from 'oidc-provider'
import * as client from 'openid-client'

import { check, given, runChecks } from './checks.mjs'

const { provider: issuer, api, gateway, jwt, opaque } = given
const appSecret = 'app-secret-that-is-long-enough-for-anyone'

async function newKey(kid, alg) {
  const { privateKey } = await generateKeyPair(alg, { extractable: true })
  return { ...(await exportJWK(privateKey)), kid, alg, use: 'sig' }
}

const keys = [await newKey('first', 'ES256')]
let server

// serve starts the provider, or replaces it by one with the keys of now. The first key of an algorithm signs.
async function serve() {
  const signing = keys[0]
  const provider = new Provider(issuer, {
    jwks: { keys },
    clients: [
      { client_id: 'app', client_secret: appSecret, grant_types: ['client_credentials'], redirect_uris: [], response_types: [] },
      { client_id: gateway.id, client_secret: gateway.secret, grant_types: [], redirect_uris: [], response_types: [] },
    ].map((c) => ({ ...c, id_token_signed_response_alg: signing.alg })),
    scopes: ['orders.read', 'orders.write'],
    features: {
      devInteractions: { enabled: false },
      clientCredentials: { enabled: true },
      introspection: { enabled: true, allowedPolicy: async () => true },
      revocation: { enabled: true, allowedPolicy: async () => true },
      resourceIndicators: {
        enabled: true,
        getResourceServerInfo: async (_ctx, resource) => ({
          scope: 'orders.read orders.write', audience: resource, accessTokenTTL: 600,
          accessTokenFormat: resource === api.opaque ? 'opaque' : 'jwt', jwt: { sign: { alg: signing.alg } },
        }),
      },
    },
  })
  await stop()
  server = createServer(provider.callback())
  await new Promise((resolve, reject) => server.once('error', reject).listen(new URL(issuer).port, '127.0.0.1', resolve))
}

async function stop() {
  if (!server) return
  const closed = new Promise((resolve) => server.close(resolve))
  server.closeAllConnections()
  await closed
  server = undefined
}

// configured discovers the provider. Connections to the one before it are tried first, and closed by then.
async function configured() {
  for (let tries = 1; ; tries++) {
    try {
      return await client.discovery(new URL(issuer), 'app', appSecret, client.ClientSecretBasic(appSecret), {
        execute: [client.allowInsecureRequests],
      })
    } catch (err) {
      if (tries === 10 || !/fetch failed/.test(err.message)) throw err
    }
  }
}

async function token(resource, scope = 'orders.read') {
  return (await client.clientCredentialsGrant(await configured(), { resource, scope })).access_token
}

async function gate(route, accessToken) {
  const answer = await fetch(route, { headers: { authorization: `Bearer ${accessToken}` } })
  await answer.arrayBuffer()
  return answer.status
}

// passes takes a token to the gate until it is let in, and bears with these other answers until then: 503, as a token waits for a
// fetch of the keys for seconds only, and 401 where a fetch may have been made just before the token's key was there.
async function passes(route, accessToken, ...borne) {
  const deadline = Date.now() + 60_000
  for (;;) {
    const status = await gate(route, accessToken)
    if (status === 200) return
    assert.ok(borne.includes(status), `the gate answers ${status}`)
    assert.ok(Date.now() < deadline, `still ${status}`)
  }
}

// during asks the gate all the time while something happens, and lets nothing but 200 pass.
async function during(route, accessToken, happens) {
  const seen = { all: 0, other: [] }
  let going = true
  const traffic = (async () => {
    while (going) {
      const status = await gate(route, accessToken)
      seen.all++
      if (status !== 200) seen.other.push(status)
    }
  })()
  try {
    await happens()
  } finally {
    going = false
    await traffic
  }
  assert.ok(seen.all > 0)
  assert.deepEqual(seen.other, [])
}

let first

check('a JWT of the provider passes', async () => {
  first = await token(api.jwt)
  assert.equal(first.split('.').length, 3)
  await passes(jwt, first, 503)
})

check('a token for another resource does not', async () => {
  assert.equal(await gate(jwt, await token('https://other.example/')), 401)
})

check('scopes of the provider decide', async () => {
  assert.equal(await gate(given.write, first), 403)
  assert.equal(await gate(given.write, await token(api.jwt, 'orders.read orders.write')), 200)
})

check('an opaque token is introspected, and ends with its revocation', async () => {
  const accessToken = await token(api.opaque)
  assert.equal(accessToken.split('.').length, 1)
  assert.equal(await gate(opaque, accessToken), 200)
  assert.equal(await gate(jwt, accessToken), 401)
  assert.equal(await gate(opaque, accessToken + 'x'), 401)
  await client.tokenRevocation(await configured(), accessToken)
  const deadline = Date.now() + 60_000 // the answer stands for a second
  while ((await gate(opaque, accessToken)) !== 401) assert.ok(Date.now() < deadline, 'still let in')
})

check('an ID token of the same key does not pass', async () => {
  const idToken = await new SignJWT({ nonce: 'n' })
    .setProtectedHeader({ alg: 'ES256', kid: 'first', typ: 'JWT' })
    .setIssuer(issuer).setAudience(api.jwt).setSubject('ada').setIssuedAt().setExpirationTime('5m')
    .sign(await importJWK(keys[0], 'ES256'))
  assert.equal(await gate(jwt, idToken), 401)
})

check('keys rotate while traffic runs', () => during(jwt, first, async () => {
  for (const [kid, alg] of [['second', 'EdDSA'], ['third', 'ES256']]) {
    keys.unshift(await newKey(kid, alg))
    await serve()
    await passes(jwt, await token(api.jwt), 401, 503)
  }
}))

check('the provider is killed while traffic runs', () => during(jwt, first, async () => {
  const another = await token(api.opaque)
  await stop()
  for (let n = 0; n < 50; n++) assert.equal(await gate(jwt, first), 200)
  assert.equal(await gate(opaque, another), 503)
  const unknown = await new SignJWT({ client_id: 'app' })
    .setProtectedHeader({ alg: 'ES256', kid: 'unknown', typ: 'at+jwt' })
    .setIssuer(issuer).setAudience(api.jwt).setSubject('app').setJti('j').setIssuedAt().setExpirationTime('5m')
    .sign((await generateKeyPair('ES256')).privateKey)
  assert.ok([401, 503].includes(await gate(jwt, unknown)))
  await serve()
  await passes(jwt, await token(api.jwt), 401, 503)
}))

await serve()
await runChecks(stop)
