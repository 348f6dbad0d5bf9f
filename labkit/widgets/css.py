"""The look of the widgets: JupyterLab's own colours, light and dark, and readable ones where there are none."""

INK, QUIET = "var(--jp-ui-font-color1, #222)", "var(--jp-ui-font-color2, #555)"
LINE, PAPER = "var(--jp-border-color1, #bbb)", "var(--jp-layout-color1, #fff)"
SOFT = "var(--jp-layout-color2, #f2f2f2)"
CODE = "var(--jp-code-font-family, Menlo, Consolas, 'DejaVu Sans Mono', monospace)"

# The text for where no view can be waits for a moment, so that it does not flash up before the view is there.
APPEAR = """.lk-instead { animation: lk-appear 1ms 2s both; }
@keyframes lk-appear { from { opacity: 0; max-height: 0; } to { opacity: 1; max-height: none; } }
"""

CSS = f"""
.lk {{ color: {INK}; gap: 6px; max-width: 1100px; padding: 2px; overflow: visible; }}
.lk .widget-html, .lk .widget-html-content {{ overflow: visible; height: auto; line-height: 1.4; width: 100%;
  margin: 0; }}
.lk .lk-facts {{ margin-top: 10px; }}
.lk .lk-facts .lk-card {{ min-height: 84px; }}
.lk .lk-bar > .widget-html {{ width: auto; flex: none; }}
.lk .lk-bar > .lk-label {{ width: 136px; color: {QUIET}; }}
.lk .lk-bar > .lk-short {{ flex: 0 1 220px; }}
.lk .lk-columns {{ align-items: flex-start; }}
.lk .lk-column {{ flex: 1 1 320px; gap: 4px; overflow: visible; }}
.lk .lk-column .lk-button {{ width: 100%; box-sizing: border-box; }}
.lk .lk-bar {{ flex-wrap: wrap; gap: 6px; overflow: visible; align-items: center; }}
.lk .lk-button {{ padding: 6px 14px; font-size: 15px; line-height: 20px; border-radius: 6px; margin: 0;
  border: 1px solid {LINE}; overflow: visible; white-space: normal; text-align: center; }}
.lk .lk-button:disabled {{ opacity: .45; }}
.lk .lk-button:focus-visible, .lk input:focus-visible {{ outline: 3px solid #0072B2; outline-offset: 2px; }}
.lk .lk-step {{ font-weight: 700; min-width: 84px; }}
.lk .lk-picked {{ outline: 3px solid {INK}; outline-offset: 1px; }}
.lk .lk-card-button {{ text-align: left; justify-content: flex-start; font-family: {CODE}; font-size: 13px; }}
.lk .lk-say {{ min-height: 22px; padding: 4px 10px; border-left: 4px solid {LINE}; background: {SOFT};
  font-size: 14px; }}
.lk .lk-good {{ border-color: #009E73; }}
.lk .lk-bad {{ border-color: #D55E00; }}
.lk .lk-error {{ border: 2px solid #D55E00; font-weight: 600; }}
.lk .lk-goal {{ font-size: 15px; }}
.lk .lk-grid {{ display: flex; flex-wrap: wrap; gap: 10px; align-items: stretch; }}
.lk .lk-card {{ flex: 1 1 380px; min-width: 0; border: 1px solid {LINE}; border-top-width: 4px; border-radius: 6px;
  padding: 6px 8px; background: {PAPER}; box-sizing: border-box; }}
.lk .lk-title {{ font-weight: 700; }}
.lk .lk-quiet {{ color: {QUIET}; }}
.lk .lk-code {{ margin: 6px 0; padding: 4px 0; background: {SOFT}; overflow-x: auto; font-size: 12.5px;
  line-height: 1.45; }}
.lk .lk-code, .lk .lk-mono {{ font-family: {CODE}; }}
.lk .lk-line {{ display: block; padding: 0 6px 0 calc(7ch + 6px); text-indent: -7ch; white-space: pre-wrap;
  overflow-wrap: anywhere; }}
.lk .lk-mono, .lk .lk-say, .lk .lk-goal {{ overflow-wrap: anywhere; }}
.lk .lk-now {{ background: rgba(230, 159, 0, .30); font-weight: 700; }}
.lk table.lk-table {{ border-collapse: collapse; font-size: 12.5px; margin: 2px 0; width: auto; }}
.lk table.lk-table th, .lk table.lk-table td {{ text-align: left; padding: 1px 12px 1px 0; vertical-align: top;
  overflow-wrap: anywhere; border: 0; background: none; }}
.lk table.lk-table th {{ color: {QUIET}; font-weight: 400; white-space: nowrap; }}
.lk .lk-picture, .lk .lk-picture .widget-html-content {{ overflow-x: auto; }}
.lk .lk-picture img, .lk .lk-picture svg {{ max-width: 100%; border-radius: 6px; }}
.lk .lk-empty {{ border: 1px dashed {LINE}; border-radius: 6px; padding: 14px; color: {QUIET}; }}
.lk .widget-select select {{ font-size: 13px; }}
.lk .widget-text, .lk .widget-textarea {{ width: auto; flex: 1 1 260px; margin: 0; }}
.lk .widget-text input {{ font-family: {CODE}; height: 30px; }}
.lk .widget-text .widget-label, .lk .widget-slider .widget-label {{ width: auto; min-width: 72px; }}
.lk pre.lk-solution {{ background: {SOFT}; padding: 8px; overflow-x: auto; font-family: {CODE};
  font-size: 12.5px; margin: 4px 0; }}
.lk pre.lk-copied {{ white-space: pre-wrap; word-break: normal; overflow-wrap: anywhere; }}
"""
