// The modules of the plans Basic OP and Form Post OP, by their names. What each asks for is what the suite asks for; where the suite
// ends with a warning or leaves a module out, the check fails.

import assert from 'node:assert/strict'
import { setTimeout as pause } from 'node:timers/promises'
import { decodeProtectedHeader, UnsecuredJWT } from 'jose'

import { check, given } from './checks.mjs'
import { keys, metadata, Party, refusedAs } from './openid-party.mjs'

const { callback, ada } = given
const { rp, other } = given.clients

const standard = {
  profile: ['name', 'given_name', 'family_name', 'preferred_username', 'picture', 'locale', 'zoneinfo', 'updated_at'],
  email: ['email', 'email_verified'],
  address: ['address'],
  phone: ['phone_number', 'phone_number_verified'],
}

// modulesOf adds the modules of a plan. The one that lasts begins with the first, and is added by lasting. Someone is a person whom nobody
// knows yet; spectator is one with a browser.
export function modulesOf(plan, { mode, someone, spectator }) {
  const party = new Party(rp, { mode })
  const add = (name, run, enter = someone) =>
    check(`${plan} ${name}`, async () => {
      const person = await enter()
      try {
        await run(person)
      } finally {
        await person.leave()
      }
    })
  // plain are modules that succeed with a parameter, of which nothing more is asked.
  const plain = (name, parameters) => add(name, (person) => party.authorize(person, parameters))

  const firstUse = async (person) => {
    const request = party.ask()
    const arrival = await party.arrive(person, request)
    return { request, arrival, tokens: await party.redeem(arrival, request) }
  }
  const secondUse = async ({ request, arrival, tokens }) => {
    await refusedAs(party.redeem(arrival, request), 'invalid_grant')
    const { status } = await fetch(metadata.userinfo_endpoint, { headers: { authorization: `Bearer ${tokens.access_token}` } })
    assert.equal(status, 401)
  }
  let late
  add('oidcc-codereuse', async (person) => {
    await secondUse(await firstUse(person))
    const used = await firstUse(person)
    late = pause(30_000).then(() => secondUse(used))
    late.catch(() => {}) // lasting has it
  })

  plain('oidcc-server')

  add('oidcc-response-type-missing', (person) =>
    party.fails(person, party.ask({ response_type: undefined }), 'invalid_request', 'unsupported_response_type'))

  add('oidcc-idtoken-signature', async (person) => {
    const { tokens } = await party.authorize(person)
    const header = decodeProtectedHeader(tokens.id_token)
    const published = (await (await fetch(metadata.jwks_uri)).json()).keys.filter(({ kid }) => kid === header.kid)
    assert.equal(published.length, 1)
    assert.equal(published[0].kty, 'RSA')
    assert.ok(await keys(header))
  })

  // Not for registered clients: the suite asks for "none" by dynamic registration.
  check(`${plan} oidcc-idtoken-unsigned`, () => assert.ok(!metadata.id_token_signing_alg_values_supported.includes('none')))

  for (const [name, options] of [
    ['get', {}], ['post-header', { method: 'POST' }], ['post-body', { method: 'POST', body: true }],
  ]) {
    add(`oidcc-userinfo-${name}`, async (person) => {
      const { tokens, info } = await party.authorize(person)
      const { access_token: token } = tokens
      const response = await fetch(metadata.userinfo_endpoint, {
        method: options.method ?? 'GET',
        ...(options.body ? { body: new URLSearchParams({ access_token: token }) } : { headers: { authorization: `Bearer ${token}` } }),
      })
      assert.equal(response.status, 200)
      assert.match(response.headers.get('content-type'), /^application\/json(;|$)/)
      const told = await response.json()
      assert.equal(told.sub, ada.id)
      assert.deepEqual(told, { ...info })
    })
  }

  // Without a nonce a challenge is required, see docs/threats.md. The suite sends none in any request.
  add('oidcc-ensure-request-without-nonce-succeeds-for-code-flow', async (person) => {
    const { parameters, verifier } = challenged
    const { claims } = await party.authorize(person, { nonce: undefined, ...parameters }, { checks: { verifier } })
    assert.equal(claims.nonce, undefined)
  })

  for (const scope of ['profile', 'email', 'address', 'phone']) {
    add(`oidcc-scope-${scope}`, async (person) => holdsClaims((await party.authorize(person, { scope: `openid ${scope}` })).info, scope))
  }
  add('oidcc-scope-all', async (person) => {
    const { info, claims } = await party.authorize(person, { scope: 'openid profile email address phone' })
    holdsClaims(info, 'profile', 'email', 'address', 'phone')
    assert.equal(claims.email ?? claims.name ?? claims.address ?? claims.phone_number, undefined)
  })
  add('oidcc-ensure-other-scope-order-succeeds', async (person) => {
    holdsClaims((await party.authorize(person, { scope: 'email openid' })).info, 'email')
  })
  // The newer name of the module before it; here the parameters come in another order too.
  add('oidcc-alternate-happy-flow', async (person) => {
    const request = party.ask({ scope: 'email openid' })
    const reordered = new URLSearchParams([...request.query].reverse())
    const tokens = await party.redeem(await party.arrive(person, { ...request, url: `${metadata.authorization_endpoint}?${reordered}` }), request)
    holdsClaims(await party.userInfo(tokens), 'email')
  })

  plain('oidcc-display-page', { display: 'page' })
  plain('oidcc-display-popup', { display: 'popup' })

  for (const [name, parameters] of [['prompt-login', { prompt: 'login' }], ['max-age-1', { max_age: 1 }]]) {
    add(`oidcc-${name}`, async (person) => {
      const first = await party.authorize(person)
      await pause(2000) // auth_time is in seconds
      const before = Date.now()
      const second = await party.authorize(person, parameters, { checks: { maxAge: parameters.max_age } })
      assert.ok(person.seen.includes('signin'), `the pages are ${person.seen}`)
      assert.ok(second.claims.auth_time > first.claims.auth_time)
      assert.ok(second.claims.auth_time >= Math.floor(before / 1000))
      assert.equal(second.claims.sub, first.claims.sub)
    }, spectator)
  }

  const needsPages = ['login_required', 'interaction_required', 'account_selection_required', 'consent_required']
  add('oidcc-prompt-none-not-logged-in', (person) => party.fails(person, party.ask({ prompt: 'none' }), ...needsPages))

  for (const [name, parameters] of [
    ['prompt-none-logged-in', () => ({ prompt: 'none' })],
    ['max-age-10000', () => ({ max_age: 10000 })],
    ['id-token-hint', (first) => ({ prompt: 'none', id_token_hint: first.tokens.id_token })],
  ]) {
    add(`oidcc-${name}`, async (person) => {
      const first = await party.authorize(person)
      const asked = parameters(first)
      const second = await party.authorize(person, asked, { checks: { maxAge: asked.max_age } })
      assert.deepEqual(person.seen, [])
      for (const claim of ['sub', 'auth_time', 'sid']) assert.equal(second.claims[claim], first.claims[claim], claim)
    })
  }

  plain('oidcc-ensure-request-with-unknown-parameter-succeeds', { extra: 'foobar' })
  plain('oidcc-login-hint', { login_hint: 'buffy@op.example' })
  plain('oidcc-ui-locales', { ui_locales: 'se' })
  plain('oidcc-claims-locales', { claims_locales: 'se' })
  add('oidcc-ensure-request-with-acr-values-succeeds', async (person) => {
    assert.ok(metadata.acr_values_supported.length > 0)
    const { claims } = await party.authorize(person, { acr_values: metadata.acr_values_supported.join(' ') })
    assert.ok(metadata.acr_values_supported.includes(claims.acr), `acr is ${claims.acr}`)
  })

  // staysWithError wants a page that says what is wrong, and nobody at the application.
  const staysWithError = async (person, request) => {
    assert.equal(await person.visit(request.url), undefined)
    assert.deepEqual(person.seen, ['problem'])
  }
  const unregistered = `${callback}/${'x'.repeat(10)}`
  add('oidcc-ensure-registered-redirect-uri', (person) => staysWithError(person, party.ask({ redirect_uri: unregistered })), spectator)

  add('oidcc-ensure-post-request-succeeds', (person) => party.authorize(person, {}, { form: true }))

  add('oidcc-server-client-secret-post', (person) => new Party(rp, { mode, post: true }).authorize(person))

  const requestObject = (request) => new UnsecuredJWT(Object.fromEntries(request.query)).setIssuer(rp.id).setAudience(given.issuer).encode()
  // Not for registered clients: the suite registers the URI dynamically.
  add('oidcc-request-uri-unsigned-supported-correctly-or-rejected-as-unsupported', (person) =>
    party.fails(person, party.ask({ request_uri: `${callback}/request.jwt` }), 'request_uri_not_supported'))
  add('oidcc-unsigned-request-object-supported-correctly-or-rejected-as-unsupported', (person) =>
    party.fails(person, party.ask({ request: requestObject(party.ask()) }), 'request_not_supported'))
  add('oidcc-ensure-request-object-with-redirect-uri', (person) =>
    staysWithError(person, party.ask({ redirect_uri: unregistered, request: requestObject(party.ask()) })), spectator)

  add('oidcc-claims-essential', async (person) => {
    const { info, claims } = await party.authorize(person, { claims: '{"userinfo":{"name":{"essential":true}}}' })
    assert.equal(info.name, ada.name)
    assert.equal(claims.name, undefined)
  })

  add('oidcc-refresh-token', async (person) => {
    const scope = 'openid offline_access'
    const second = new Party(other, { mode })
    const first = await party.authorize(person, { scope, prompt: 'consent' })
    assert.ok(metadata.grant_types_supported.includes('refresh_token'))
    assert.ok(person.seen.includes('consent'), `the pages are ${person.seen}`)
    assert.match(first.tokens.refresh_token, /^[\x20-\x7e]+$/)
    const { tokens, claims } = await party.refresh(first.tokens.refresh_token)
    assert.notEqual(tokens.access_token, first.tokens.access_token)
    for (const claim of ['iss', 'sub', 'aud', 'azp', 'auth_time', 'sid']) assert.deepEqual(claims[claim], first.claims[claim], claim)
    assert.equal(claims.nonce, undefined)
    assert.ok(claims.iat >= first.claims.iat)
    assert.equal((await party.userInfo(tokens)).sub, ada.id)

    const theirs = await second.authorize(person, { scope, prompt: 'consent' })
    await refusedAs(party.refresh(theirs.tokens.refresh_token), 'invalid_grant')
  })

  add('oidcc-ensure-request-with-valid-pkce-succeeds', (person) => {
    const { parameters, verifier } = challenged
    return party.authorize(person, parameters, { checks: { verifier } })
  })

  return {
    lasting: () => check(`${plan} oidcc-codereuse-30seconds`, async () => {
      assert.ok(late, 'it has not begun')
      await late
    }),
  }
}

// challenged is RFC 7636 appendix B.
const challenged = {
  verifier: 'dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk',
  parameters: { code_challenge: 'E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM', code_challenge_method: 'S256' },
}

// holdsClaims wants the claims of scopes, each of its type (OpenID Connect Core §5.1), and no others but sub.
function holdsClaims(info, ...scopes) {
  const names = scopes.flatMap((scope) => standard[scope])
  assert.deepEqual(Object.keys(info).sort(), ['sub', ...names].sort())
  for (const name of names) {
    const type = { address: 'object', updated_at: 'number', email_verified: 'boolean', phone_number_verified: 'boolean' }[name] ?? 'string'
    assert.equal(typeof info[name], type, name)
  }
  for (const [name, value] of Object.entries(info.address ?? {})) assert.equal(typeof value, 'string', name)
}
