// The relying party of the OpenID modules, with two libraries, and what holds of every answer.

import './webcrypto.mjs'

import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { createRemoteJWKSet, decodeProtectedHeader, jwtVerify } from 'jose'
import * as oauth from 'oauth4webapi'
import * as openid from 'openid-client'

import { given } from './checks.mjs'

const { issuer, callback, ada } = given

export const metadata = await (await fetch(`${issuer}/.well-known/openid-configuration`)).json()
export const keys = createRemoteJWKSet(new URL(metadata.jwks_uri))

// exchanged is what the token endpoint has answered last.
let exchanged

async function noting(url, options) {
  const response = await fetch(url, options)
  if (String(url) === metadata.token_endpoint) exchanged = response.headers
  return response
}

// A library redeems a code, uses a refresh token and asks for user info. It checks what the specifications tell it to, the ID token's
// signature among that, and throws what the provider says as an error with the members status and error.
const withOpenIDClient = async ({ id, secret }, post) => {
  const authentication = post ? openid.ClientSecretPost(secret) : openid.ClientSecretBasic(secret)
  const options = { [openid.customFetch]: noting, execute: [openid.enableNonRepudiationChecks] }
  const config = await openid.discovery(new URL(issuer), id, undefined, authentication, options)
  return {
    redeem: (arrival, { state, nonce, verifier, maxAge }) =>
      openid.authorizationCodeGrant(config, asRequest(arrival), {
        expectedState: state, expectedNonce: nonce, pkceCodeVerifier: verifier, maxAge, idTokenExpected: true,
      }),
    refresh: (token) => openid.refreshTokenGrant(config, token),
    userInfo: (token, subject) => openid.fetchUserInfo(config, token, subject),
  }
}

const withOAuth4WebAPI = async ({ id, secret }, post) => {
  const as = await oauth.processDiscoveryResponse(new URL(issuer), await oauth.discoveryRequest(new URL(issuer)))
  const client = { client_id: id }
  const authentication = post ? oauth.ClientSecretPost(secret) : oauth.ClientSecretBasic(secret)
  const options = { [oauth.customFetch]: noting }
  const signed = async (response, tokens) => {
    await oauth.validateApplicationLevelSignature(as, response)
    return { ...tokens, claims: () => oauth.getValidatedIdTokenClaims(tokens) }
  }
  return {
    async redeem(arrival, { state, nonce, verifier, maxAge }) {
      const request = asRequest(arrival)
      const answer = request.method === 'POST' ? new URLSearchParams(await oauth.formPostResponse(request)) : new URL(request.url)
      const parameters = oauth.validateAuthResponse(as, client, answer, state)
      const response = await oauth.authorizationCodeGrantRequest(as, client, authentication, parameters, callback, verifier ?? oauth.nopkce, options)
      const checks = { expectedNonce: nonce ?? oauth.expectNoNonce, maxAge: maxAge ?? oauth.skipAuthTimeCheck, requireIdToken: true }
      return signed(response, await oauth.processAuthorizationCodeResponse(as, client, response, checks))
    },
    async refresh(token) {
      const response = await oauth.refreshTokenGrantRequest(as, client, authentication, token, options)
      return signed(response, await oauth.processRefreshTokenResponse(as, client, response))
    },
    async userInfo(token, subject) {
      return oauth.processUserInfoResponse(as, client, subject, await oauth.userInfoRequest(as, client, token))
    },
  }
}

function asRequest({ method, url, headers, body }) {
  return new Request(url, method === 'POST' ? { method, body, headers: { 'content-type': headers['content-type'] } } : {})
}

// Party is a relying party. With the response mode form_post it has the second library.
export class Party {
  constructor(client, { mode, post = false } = {}) {
    Object.assign(this, { client, mode })
    this.driver = (mode === 'form_post' ? withOAuth4WebAPI : withOpenIDClient)(client, post)
  }

  // ask is an authorization request, as the suite sends it: with state and nonce and without a challenge. A parameter that is undefined
  // is left out.
  ask(parameters = {}) {
    const all = {
      client_id: this.client.id, redirect_uri: callback, response_type: 'code', scope: 'openid', state: openid.randomState(),
      nonce: openid.randomNonce(), response_mode: this.mode, ...parameters,
    }
    const query = new URLSearchParams(Object.entries(all).filter(([, value]) => value !== undefined))
    return { query, state: all.state, nonce: all.nonce, url: `${metadata.authorization_endpoint}?${query}` }
  }

  // arrive takes a person through a request, and holds what the application is told: by which method, with which state and issuer.
  async arrive(person, request, form) {
    const arrival = form ? await person.visit(metadata.authorization_endpoint, request.query) : await person.visit(request.url)
    assert.ok(arrival, `the browser stays at the pages ${person.seen}`)
    const answer = this.answer(arrival)
    assert.equal(answer.get('state'), request.state)
    assert.equal(answer.get('iss'), issuer)
    return arrival
  }

  answer({ method, url, body }) {
    if (this.mode !== 'form_post') {
      assert.equal(method, 'GET')
      return url.searchParams
    }
    assert.equal(method, 'POST')
    assert.equal(url.search, '')
    return new URLSearchParams(body)
  }

  // fails takes a person through a request that comes back with one of these errors.
  async fails(person, request, ...errors) {
    const answer = this.answer(await this.arrive(person, request))
    assert.ok(errors.includes(answer.get('error')), `the error is ${answer.get('error')}: ${answer.get('error_description')}`)
    assert.equal(answer.get('code'), null)
  }

  async redeem(arrival, request) {
    const tokens = await (await this.driver).redeem(arrival, request)
    await this.holds(tokens)
    assert.equal(tokens.claims().nonce, request.nonce)
    return tokens
  }

  // authorize goes from the request to the tokens, and to the user info.
  async authorize(person, parameters, { checks = {}, form = false } = {}) {
    const request = { ...this.ask(parameters), ...checks }
    const tokens = await this.redeem(await this.arrive(person, request, form), request)
    return { request, tokens, claims: tokens.claims(), info: await this.userInfo(tokens) }
  }

  async refresh(token) {
    const tokens = await (await this.driver).refresh(token)
    await this.holds(tokens)
    return { tokens, claims: tokens.claims() }
  }

  async userInfo(tokens) {
    return (await this.driver).userInfo(tokens.access_token, tokens.claims().sub)
  }

  // holds is what the suite checks of every answer of the token endpoint, beside what the libraries check.
  async holds(tokens) {
    assert.equal(tokens.token_type.toLowerCase(), 'bearer')
    assert.ok(Number.isInteger(tokens.expires_in) && tokens.expires_in > 0)
    assert.match(exchanged.get('cache-control'), /no-store/)
    const { alg, kid } = decodeProtectedHeader(tokens.id_token)
    assert.equal(alg, 'RS256')
    assert.ok(kid, 'no kid')
    const { payload } = await jwtVerify(tokens.id_token, keys, { issuer, audience: this.client.id, algorithms: ['RS256'] })
    assert.equal(payload.sub, ada.id)
    assert.match(payload.sub, /^[\x21-\x7e]{1,255}$/)
    const half = createHash('sha256').update(tokens.access_token).digest().subarray(0, 16)
    assert.equal(payload.at_hash, half.toString('base64url'))
    assert.ok(payload.exp > payload.iat && payload.auth_time <= payload.iat + 1)
    assert.ok(payload.sid)
  }
}

// refusedAs wants the token endpoint to refuse something.
export function refusedAs(promise, error) {
  return assert.rejects(promise, (err) => {
    assert.equal(err.error, error, err.stack)
    assert.equal(err.status, 400)
    return true
  })
}
