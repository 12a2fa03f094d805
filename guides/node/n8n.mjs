// Signs in with openid-client as n8n does, with the settings of its page for OpenID Connect, and shows the person whom it makes an account for.
import http from "node:http";
import * as oidc from "openid-client";

const settings = JSON.parse(process.env.SETTINGS);
const callback = new URL("/rest/sso/oidc/callback", process.env.SITE);
// A secret that is given as it is goes into the body of a request: n8n has no setting for that.
const issuer = await oidc.discovery(new URL(settings["Discovery endpoint"]), settings["Client ID"], settings["Client secret"]);
const begun = new Map(); // the nonces of those who sign in, by state

const server = http.createServer(async (request, response) => {
  const address = new URL(request.url, callback);
  try {
    if (address.pathname === "/rest/sso/oidc/login") {
      const [state, nonce] = [oidc.randomState(), oidc.randomNonce()];
      begun.set(state, nonce);
      const parameters = { redirect_uri: callback.href, response_type: "code", scope: "openid email profile", prompt: "select_account", state, nonce };
      response.writeHead(302, { location: oidc.buildAuthorizationUrl(issuer, parameters).href }).end();
      return;
    }
    const expectedState = address.searchParams.get("state");
    const tokens = await oidc.authorizationCodeGrant(issuer, address, { expectedState, expectedNonce: begun.get(expectedState) });
    response.end(JSON.stringify(await oidc.fetchUserInfo(issuer, tokens.access_token, tokens.claims().sub)));
  } catch (error) {
    response.writeHead(500).end(`${error} ${error.cause ?? ""}`);
  }
});
server.listen(process.env.PORT, "127.0.0.1");
