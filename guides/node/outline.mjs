// Signs in with passport-oauth2 as Outline's plugin for OpenID Connect does, under Koa as Outline is, with the environment of the guide. It
// shows what the plugin makes an account of.
import { randomBytes } from "node:crypto";
import passport from "@outlinewiki/koa-passport";
import Koa from "koa";
import { Strategy } from "passport-oauth2";

const env = process.env;
const begun = new Set(); // the states of those who sign in
const states = {
  store(ctx, meta, done) {
    const state = randomBytes(8).toString("hex");
    begun.add(state);
    done(null, state);
  },
  verify(ctx, state, meta, done) {
    done(null, begun.delete(state), state);
  },
};
const strategy = new Strategy(
  {
    authorizationURL: env.OIDC_AUTH_URI,
    tokenURL: env.OIDC_TOKEN_URI,
    clientID: env.OIDC_CLIENT_ID,
    clientSecret: env.OIDC_CLIENT_SECRET,
    callbackURL: `${env.URL}/auth/oidc.callback`,
    passReqToCallback: true,
    scope: env.OIDC_SCOPES,
    store: states,
    state: true,
    pkce: false, // as for endpoints that are given one by one
  },
  async (ctx, accessToken, refreshToken, parameters, profile, done) => {
    try {
      const answer = await fetch(env.OIDC_USERINFO_URI, { headers: { authorization: `Bearer ${accessToken}` } });
      const { sub, name, email, [env.OIDC_USERNAME_CLAIM]: username } = await answer.json();
      done(null, { sub, name, email, username, refreshToken: Boolean(refreshToken), scope: parameters.scope });
    } catch (error) {
      done(error);
    }
  },
);
passport.use("oidc", strategy);

const app = new Koa();
app.use(async (ctx, next) => {
  try {
    await next();
  } catch (error) {
    ctx.status = 500;
    ctx.body = `${error} ${JSON.stringify(error.oauthError ?? "")}`;
  }
});
app.use(passport.initialize());
app.use((ctx, next) =>
  passport.authenticate("oidc", { session: false }, (error, user, info) => {
    if (error) throw error;
    ctx.body = user || info;
  })(ctx, next),
);
app.listen(env.PORT, "127.0.0.1");
