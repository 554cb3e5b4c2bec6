#compdef hsp

_hsp_completion() {
  eval $(env _TYPER_COMPLETE_ARGS="${words[1,$CURRENT]}" _HSP_COMPLETE=complete_zsh hsp)
}

compdef _hsp_completion hsp
[ "$funcstack[1]" = _hsp ] && _hsp_completion "$@"
