// Bundles src/ into trtdsl/display/view/page.js and page.css, with the licences of what is in it.
//
//     npm ci && npm run build
//
// tests/display/view/test_bundle.py compares the digest at the top of page.js with that of the sources.

import { createHash } from "node:crypto";
import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import { build } from "esbuild";

const target = new URL("../../trtdsl/display/view/", import.meta.url);
const sources = [...readdirSync("src").sort().map((name) => `src/${name}`), "build.mjs", "package.json", "package-lock.json"];
const digest = createHash("sha256");
for (const name of sources) digest.update(name).update("\0").update(readFileSync(name)).update("\0");
const hash = digest.digest("hex");

const licences = ["@dagrejs/dagre", "@dagrejs/graphlib"].map((name) => {
  const folder = `node_modules/${name}`;
  const { version, license } = JSON.parse(readFileSync(`${folder}/package.json`));
  const file = readdirSync(folder).find((each) => /^licen[cs]e/i.test(each));
  return `${name} ${version} (${license})\n\n${file ? readFileSync(`${folder}/${file}`, "utf8").trim() : ""}\n`;
});

async function bundle(entry, options) {
  const { outputFiles } = await build({
    entryPoints: [entry], bundle: true, minify: true, write: false, charset: "ascii", legalComments: "none", target: "es2022", ...options,
  });
  return outputFiles[0].text;
}

const script = await bundle("src/main.js", { format: "iife", globalName: "trtdslView" });
const style = await bundle("src/style.css", {});
const head = `/* trtdsl view ${hash}: made by tools/view/build.mjs; licences in LICENSES.txt */\n`;
writeFileSync(new URL("page.js", target), head + script.replaceAll("</script", "<\\/script"));
writeFileSync(new URL("page.css", target), head + style);
writeFileSync(new URL("LICENSES.txt", target), licences.join(`\n${"-".repeat(72)}\n\n`));
console.log(`page.js ${script.length}, page.css ${style.length} bytes`);
