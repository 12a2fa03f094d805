// The modules of the plans Config OP, RP-Initiated Logout OP and Back-Channel OP, by their names.

import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { exportJWK, generateKeyPair, jwtVerify, SignJWT } from 'jose'

import { check, given } from './checks.mjs'
import { beTold, signedOut } from './openid-application.mjs'
import { keys, metadata, Party } from './openid-party.mjs'

const { issuer } = given
const { rp, told } = given.clients

const endpointsAreHTTPS = () => {
  for (const [name, url] of Object.entries(metadata)) {
    if (/_endpoint$|_uri$/.test(name)) assert.match(url, /^https:/, name)
  }
}

export function configModules(plan) {
  check(`${plan} oidcc-discovery-endpoint-verification`, async () => {
    const response = await fetch(`${issuer}/.well-known/openid-configuration`)
    assert.equal(response.status, 200)
    assert.match(response.headers.get('content-type'), /^application\/json(;|$)/)
    assert.equal(metadata.issuer, issuer)
    endpointsAreHTTPS()
    for (const name of ['authorization_endpoint', 'token_endpoint', 'userinfo_endpoint', 'jwks_uri']) assert.ok(metadata[name], name)
    for (const [name, value] of [
      ['response_types_supported', 'code'], ['subject_types_supported', 'public'], ['id_token_signing_alg_values_supported', 'RS256'],
      ['grant_types_supported', 'authorization_code'], ['scopes_supported', 'openid'], ['claims_supported', 'sub'],
      ['response_modes_supported', 'form_post'], ['code_challenge_methods_supported', 'S256'],
    ]) assert.ok(metadata[name]?.includes(value), name)
    for (const scope of metadata.scopes_supported) assert.match(scope, /^[\x21\x23-\x5b\x5d-\x7e]+$/)
    for (const tag of metadata.ui_locales_supported ?? []) assert.deepEqual(Intl.getCanonicalLocales(tag), [tag])
    for (const [name, value] of [
      ['claims_parameter_supported', true], ['request_parameter_supported', false], ['request_uri_parameter_supported', false],
      ['authorization_response_iss_parameter_supported', true],
    ]) assert.equal(metadata[name], value, name)

    const { keys: published } = await (await fetch(metadata.jwks_uri)).json()
    assert.equal(new Set(published.map(({ kid }) => kid)).size, published.length)
    for (const key of published) {
      assert.ok(key.kid && key.use === 'sig' && key.kty !== 'oct')
      for (const secret of ['d', 'p', 'q', 'dp', 'dq', 'qi', 'k']) assert.equal(key[secret], undefined)
    }
  })
}

const needsPages = ['login_required', 'interaction_required', 'account_selection_required', 'consent_required']

// endSession is the URL that signs out. A parameter that is undefined is left out.
function endSession(parameters) {
  const query = new URLSearchParams(Object.entries(parameters).filter(([, value]) => value !== undefined))
  return `${metadata.end_session_endpoint}?${query}`
}

// signedIn signs somebody in, and returns what signs them out again.
async function signedIn(party, person) {
  const { tokens, claims } = await party.authorize(person)
  const request = { id_token_hint: tokens.id_token, post_logout_redirect_uri: signedOut, state: randomBytes(64).toString('hex') }
  return { claims, request }
}

// returns wants the browser at the registered URI, with the state and nothing else, and the person signed out.
async function returns(party, person, request) {
  const arrival = await person.visit(endSession(request))
  assert.ok(arrival, `the browser stays at ${person.seen}`)
  assert.equal(arrival.method, 'GET')
  assert.deepEqual(person.seen, [])
  assert.equal(arrival.url.href, request.state === undefined ? signedOut : `${signedOut}?state=${request.state}`)
  await party.fails(person, party.ask({ prompt: 'none' }), ...needsPages)
}

export function logoutModules(plan, spectator) {
  const party = new Party(rp)
  const add = (name, run) =>
    check(`${plan} oidcc-rp-initiated-logout${name}`, async () => {
      const person = await spectator()
      try {
        const { claims, request } = await signedIn(party, person)
        await run(person, request, claims)
      } finally {
        await person.leave()
      }
    })
  // stays wants a page of ours, and no redirect after it either, when the person has said yes there.
  const stays = (name, change) => add(name, async (person, request) => {
    assert.equal(await person.visit(endSession({ ...request, ...(await change(request)) })), undefined)
    assert.ok(person.seen.length > 0)
  })
  // leaves wants the same, and the person signed out.
  const leaves = (name, ...missing) => add(name, async (person, request) => {
    for (const parameter of missing) delete request[parameter]
    assert.equal(await person.visit(endSession(request)), undefined)
    assert.equal(person.seen.at(-1), 'signout')
    await party.fails(person, party.ask({ prompt: 'none' }), ...needsPages)
  })

  check(`${plan} oidcc-rp-initiated-logout-discovery-endpoint-verification`, () => {
    endpointsAreHTTPS()
    assert.ok(metadata.end_session_endpoint)
  })
  add('', (person, request) => returns(party, person, request))
  add('-no-state', (person, request) => returns(party, person, { ...request, state: undefined }))
  stays('-bad-post-logout-redirect-uri', () => ({ post_logout_redirect_uri: signedOut.replace('signed-out', 'elsewhere') }))
  stays('-query-added-to-post-logout-redirect-uri', () => ({ post_logout_redirect_uri: `${signedOut}?foo=bar` }))
  stays('-modified-id-token-hint', ({ id_token_hint: token }) => {
    const [header, payload, signature] = token.split('.')
    const changed = Buffer.from(signature, 'base64url')
    changed[7] ^= 0x5a
    return { id_token_hint: `${header}.${payload}.${changed.toString('base64url')}` }
  })
  stays('-bad-id-token-hint', async () => {
    const { privateKey, publicKey } = await generateKeyPair('RS256')
    const header = { alg: 'RS256', kid: (await exportJWK(publicKey)).n.slice(0, 8) }
    const forged = await new SignJWT({ sid: 'a session' }).setProtectedHeader(header).setIssuer(issuer).setAudience(rp.id)
      .setSubject(given.ada.id).setIssuedAt().setExpirationTime('5m').sign(privateKey)
    return { id_token_hint: forged }
  })
  stays('-no-id-token-hint', () => ({ id_token_hint: undefined }))
  leaves('-no-params', 'id_token_hint', 'post_logout_redirect_uri', 'state')
  leaves('-no-post-logout-redirect-uri', 'post_logout_redirect_uri')
  leaves('-only-state', 'id_token_hint', 'post_logout_redirect_uri')
}

export function backchannelModules(plan, spectator) {
  check(`${plan} oidcc-backchannel-logout-discovery-endpoint-verification`, () => {
    endpointsAreHTTPS()
    assert.equal(metadata.backchannel_logout_supported, true)
    assert.equal(metadata.backchannel_logout_session_supported, true)
    assert.ok(metadata.end_session_endpoint)
  })

  check(`${plan} oidcc-backchannel-rp-initiated-logout`, async () => {
    const party = new Party(told)
    const person = await spectator()
    try {
      const { claims, request } = await signedIn(party, person)
      await returns(party, person, request)
      const sent = await beTold(({ path }) => path === new URL(given.backchannel).pathname)
      assert.equal(sent.method, 'POST')
      assert.match(sent.headers['content-type'], /^application\/x-www-form-urlencoded(;|$)/)
      const form = new URLSearchParams(sent.body)
      assert.deepEqual([...form.keys()], ['logout_token'])
      const { payload } = await jwtVerify(form.get('logout_token'), keys, {
        issuer, audience: told.id, typ: 'logout+jwt', algorithms: ['RS256'], requiredClaims: ['iat', 'exp', 'jti'], maxTokenAge: '2m',
      })
      assert.deepEqual(payload.events, { 'http://schemas.openid.net/event/backchannel-logout': {} })
      assert.equal(payload.sub, claims.sub)
      assert.equal(payload.sid, claims.sid)
      assert.equal(payload.nonce, undefined)
    } finally {
      await person.leave()
    }
  })
}
