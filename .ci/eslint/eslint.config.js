// How the scripts of a report's page are checked: `tox -e lint`.
const js = require("@eslint/js");
const globals = require("globals");

module.exports = [
  {linterOptions: {reportUnusedDisableDirectives: "error"}},
  js.configs.recommended,
  {
    files: ["reports/page/js/*.js"],
    // Plotly is a script of the page, not a module.
    languageOptions: {ecmaVersion: 2024, sourceType: "module", globals: {...globals.browser, Plotly: "readonly"}},
    rules: {
      "max-len": ["error", {code: 110}],
      "no-undef": "error",
      "no-unused-vars": "error",
      "no-shadow": ["error", {builtinGlobals: false}],
      "no-use-before-define": ["error", {functions: false}],
      "prefer-const": ["error", {destructuring: "all"}],
      "no-var": "error",
      "eqeqeq": "error",
    },
  },
];
