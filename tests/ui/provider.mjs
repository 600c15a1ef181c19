// An OpenID provider: the certified library `oidc-provider` with its own sign-in pages. People are read from a file for
// every request, so that a test can change their groups.
//   node provider.mjs PEOPLE_FILE REDIRECT_URI SIGN_OUT_URI
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const [, , peopleFile, redirectUri, signOutUri] = process.argv;
const require = createRequire(join(process.cwd(), "index.js"));
const { Provider } = await import(pathToFileURL(require.resolve("oidc-provider")).href);

const configuration = {
  clients: [{
    client_id: "gristmill",
    client_secret: "a secret with / and +",
    redirect_uris: [redirectUri],
    post_logout_redirect_uris: [signOutUri],
  }],
  claims: { openid: ["sub"], email: ["email", "email_verified"], profile: ["name"], groups: ["groups"] },
  scopes: ["openid", "email", "profile", "groups"],
  cookies: { keys: ["for tests"] },
  findAccount: (_context, id) => {
    const person = JSON.parse(readFileSync(peopleFile, "utf8"))[id];
    return person && { accountId: id, claims: () => ({ sub: id, ...person }) };
  },
};

const server = createServer();
server.listen(0, "127.0.0.1", () => {
  const issuer = `http://127.0.0.1:${server.address().port}`;
  server.on("request", new Provider(issuer, configuration).callback());
  console.log(`READY ${issuer}`);
});
