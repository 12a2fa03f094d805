// Serves node oidc-provider as its authors document it, in memory, for the benchmark of client_credentials: ES256 access tokens of the
// form that RFC 9068 gives them. Arguments: the directory of oidc-provider, the port, and the client's id and secret.

import { generateKeyPairSync } from 'node:crypto'
import { createServer } from 'node:http'
import { pathToFileURL } from 'node:url'

const [directory, port, id, secret] = process.argv.slice(2)
const { Provider } = await import(pathToFileURL(`${directory}/lib/index.js`))

const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
const provider = new Provider(`http://127.0.0.1:${port}`, {
  jwks: { keys: [{ ...privateKey.export({ format: 'jwk' }), kid: 'bench', alg: 'ES256', use: 'sig' }] },
  clients: [{
    client_id: id, client_secret: secret, grant_types: ['client_credentials'], redirect_uris: [], response_types: [],
    id_token_signed_response_alg: 'ES256',
  }],
  scopes: ['public'],
  features: {
    devInteractions: { enabled: false },
    clientCredentials: { enabled: true },
    resourceIndicators: {
      enabled: true,
      getResourceServerInfo: async (_ctx, audience) => ({
        scope: 'public', audience, accessTokenTTL: 600, accessTokenFormat: 'jwt', jwt: { sign: { alg: 'ES256' } },
      }),
    },
  },
})
createServer(provider.callback()).listen(Number(port), '127.0.0.1')
